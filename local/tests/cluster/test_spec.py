"""Cluster files: what is refused, at which field, and the one in the documentation."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant_local.cluster import spec
from cotenant_local.host.errors import LocalError


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"nodes": [{}]}, "nodes.0.name: Field required"),
        ({"nodes": [{"name": "UPPER"}]}, "nodes.0.name: String should match pattern"),
        ({"nodes": [{"name": "a", "cpus": 4}]}, "nodes.0.cpus: Extra inputs are not permitted"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "nodes: a: named more than once"),
        ({"nodes": [{"name": "a", "cpu": 0}]}, "nodes.0.cpu: Input should be greater than or equal to 1"),
        ({"nodes": [{"name": "a", "memory": "1MB"}]}, "'1MB' is not an amount of memory such as 512Mi or 80Gi"),
        ({"nodes": [{"name": "a", "memory": "10Mi"}]}, "nodes.0.memory: Value error, is less than 64Mi"),
        ({"nodes": [{"name": "a", "taints": ["x"]}]}, "'x' is not KEY[=VALUE]:NoSchedule|PreferNoSchedule|NoExecute"),
        ({"nodes": [{"name": "a", "resources": {"gpu": 1}}]}, "is not an extended resource such as example.com/dongle"),
        ({"nodes": [{"name": "a", "gpus": {"count": 2}}]}, "nodes.0.gpus.class: Field required"),
        ({"nodes": [{"name": "a", "gpus": {"count": 99, "class": "H100"}}]}, "less than or equal to 16"),
        ({"nodes": [{"name": "a", "count": 65}]}, "nodes: count: want a number from 0 to 64, got 65"),
        ({"nodes": {"name": "a"}}, "nodes: want a list"),
        ({"forwards": [{"service": "web:80"}]}, "forwards.0.service: String should match pattern"),
        ({"node": []}, "node: Extra inputs are not permitted"),
        ({"images": {"Jax": {}}}, "images.Jax.[key]: String should match pattern"),
        ({"images": {"jax": {"like": "pytorch"}}}, "images.jax.like: Input should be"),
        ({"images": {"jax": {}, "docker.io/library/jax:1": {}}}, "images: jax: named more than once"),
        ({"images": {"jax": {"paths": ["opt"]}}}, "'opt' is not an absolute path"),
    ],
)
def test_a_cluster_file_that_cannot_be_is_refused_at_the_field(document: dict[str, Any], said: str) -> None:
    with pytest.raises(LocalError) as refusal:
        spec.parse(document, "cluster.yaml")
    assert str(refusal.value).startswith("cluster.yaml: ")
    assert said in str(refusal.value)


def test_a_file_that_is_no_mapping_or_no_yaml_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("- a list")
    with pytest.raises(LocalError, match=r"cluster.yaml: want a mapping with `nodes:`, got list"):
        spec.load(file)
    file.write_text("{")
    with pytest.raises(LocalError, match=r"cluster.yaml: cannot be read as YAML"):
        spec.load(file)


def test_count_makes_numbered_nodes() -> None:
    asked = spec.parse({"nodes": [{"name": "big", "count": 2, "zone": "a"}, {"name": "odd"}]}, "this test")
    assert [(node.name, node.zone) for node in asked.nodes] == [("big-1", "a"), ("big-2", "a"), ("odd", None)]


@pytest.mark.parametrize(
    ("page", "nodes"), [("local-cluster.md", ["big-1", "big-2", "small"]), ("sessions.md", ["node"])]
)
def test_the_cluster_file_in_the_documentation_is_one(page: str, nodes: list[str]) -> None:
    text = (Path(__file__).parents[3] / "docs" / page).read_text()
    blocks = [part.partition("```")[0] for part in text.split("```yaml\n")[1:]]
    (block,) = [one for one in blocks if one.startswith("nodes:")]
    asked = spec.parse(yaml.safe_load(block), page)
    assert [node.name for node in asked.nodes] == nodes
