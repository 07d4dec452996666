"""The catalogue: references, entries, ids."""

import json
import re
from pathlib import Path

import pytest

from cotenant_local.runtime.containers import images


@pytest.mark.parametrize(
    ("reference", "repository"),
    [
        ("ghcr.io/cotenant/worker", "ghcr.io/cotenant/worker"),
        ("ghcr.io/cotenant/worker:v1", "ghcr.io/cotenant/worker"),
        ("ghcr.io/cotenant/worker@sha256:abc", "ghcr.io/cotenant/worker"),
        ("ghcr.io/cotenant/worker:v1@sha256:abc", "ghcr.io/cotenant/worker"),
        ("nginx", "nginx"),
        ("docker.io/library/nginx:1.27", "nginx"),
        ("index.docker.io/grafana/grafana", "grafana/grafana"),
        ("localhost:5000/worker", "localhost:5000/worker"),
        ("localhost:5000/worker:v1", "localhost:5000/worker"),
    ],
)
def test_tags_and_digests_do_not_matter_but_ports_do(reference: str, repository: str) -> None:
    assert images.repository(reference) == repository


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"colour": "red"}, "image x: unknown fields ['colour']"),
        ({"paths": "/usr"}, "image x: paths must be a list"),
        ({"paths": ["opt"]}, "image x: path 'opt' is not absolute"),
    ],
)
def test_a_catalogue_that_cannot_be_used_names_the_image(tmp_path: Path, entry: object, message: str) -> None:
    path = tmp_path / "images.yaml"
    path.write_text(json.dumps({"images": {"x": entry}}))
    with pytest.raises(images.CatalogueError, match=re.escape(message)):
        images.load(path)


def test_an_image_more_is_one_of_ours_with_folders_and_variables_added(tmp_path: Path) -> None:
    jax = {"like": "worker", "paths": ["/opt/jax"], "env": {"PYTHONPATH": "/opt/jax"}}
    made = images.default_catalogue(tmp_path, tmp_path, more={"example.com/jax": jax})["images"]
    ours = made["ghcr.io/cotenant/worker"]
    assert made["example.com/jax"] == {
        **ours,
        "paths": sorted([*ours["paths"], "/opt/jax"]),
        "env": {**ours["env"], "PYTHONPATH": "/opt/jax"},
    }


def test_an_image_keeps_its_id_until_its_entry_changes(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    path.write_text("images:\n  x: {env: {A: '1'}}\n  y:\n")
    first = images.load(path)
    assert first.find("x:v1") == first.find(first.images["x"].id) == images.load(path).find("x")
    path.write_text("images:\n  x: {env: {A: '2'}}\n")
    second = images.load(path).find("x")
    assert second is not None
    assert second.id != first.images["x"].id
