"""Fields that a cluster's CRDs lack are named by their paths. Additional fields do not matter."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from cotenant.api.schema.crds import document
from cotenant.api.schema.kinds import RESOURCES, CustomResource
from cotenant.api.schema.served import lacking

JOBS = next(resource for resource in RESOURCES if resource.plural == "trainingjobs")


def without(*path: str, word: str = "") -> dict[str, Any]:
    """The definition of TrainingJobs without this field, or with it and without a word of its enum."""
    made = deepcopy(document(JOBS))
    (version,) = [one for one in made["spec"]["versions"] if one["storage"]]
    version["schema"] = deepcopy(version["schema"])
    node = version["schema"]["openAPIV3Schema"]
    for name in path[:-1]:
        node = node["items"] if name == "[]" else node["properties"][name]
    if word:
        node["properties"][path[-1]]["enum"].remove(word)
    else:
        del node["properties"][path[-1]]
    return made


def serving(*, version: bool) -> dict[str, Any]:
    made = deepcopy(document(JOBS))
    made["spec"]["versions"] = [one | {"served": one["served"] and version} for one in made["spec"]["versions"]]
    return made


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: str(one.plural))
def test_the_definitions_of_this_release_lack_nothing(resource: CustomResource) -> None:
    assert lacking(document(resource), document(resource)) == ""


@pytest.mark.parametrize(
    ("served", "says"),
    [
        pytest.param(without("status", "placement"), "it lacks status.placement", id="a field of the status"),
        pytest.param(without("spec", "queue"), "it lacks spec.queue", id="a field of the spec"),
        pytest.param(
            without("status", "conditions", "[]", "reason"), "it lacks status.conditions[].reason", id="inside a list"
        ),
        pytest.param(without("status", "phase", word="Running"), "it lacks status.phase: Running", id="a word"),
        pytest.param(serving(version=False), "it does not serve v1beta1", id="the version"),
    ],
)
def test_what_is_missing_is_named(served: dict[str, Any], says: str) -> None:
    assert lacking(document(JOBS), served) == says


def test_of_many_the_first_are_named() -> None:
    assert lacking(document(JOBS), {"spec": {"versions": [{"name": "v1beta1", "served": True}]}}).startswith(
        "it lacks apiVersion, kind, metadata and "
    )


def test_a_newer_release_may_have_more() -> None:
    assert lacking(without("status", "placement"), document(JOBS)) == ""
