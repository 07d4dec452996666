"""What each kind is called and shows in `kubectl get`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from cotenant.api.schema import crds, kinds

# Of Kubernetes itself, as `kubectl api-resources` lists them: a short name of ours would hide, or be hidden.
TAKEN = {"po", "svc", "no", "ns", "cm", "ds", "deploy", "rs", "ep", "ev", "pv", "pvc", "sa", "sts", "hpa", "ing", "cj"}
METADATA = {"creationTimestamp": {"type": "string"}, "name": {"type": "string"}}


def schema_of(resource: kinds.CustomResource) -> dict[str, Any]:
    found: dict[str, Any] = crds.document(resource)["spec"]["versions"][-1]["schema"]["openAPIV3Schema"]
    return {**found, "properties": {**found["properties"], "metadata": {"properties": METADATA}}}


def test_no_two_kinds_have_a_name_in_common_and_none_has_one_of_kubernetes() -> None:
    names = Counter(
        name for resource in kinds.RESOURCES for name in (resource.plural, resource.kind.lower(), *resource.short)
    )
    assert [name for name, times in names.items() if times > 1] == []
    assert names.keys() & TAKEN == set()


@pytest.mark.parametrize("resource", kinds.RESOURCES, ids=lambda resource: resource.kind)
def test_every_column_is_of_a_field_that_the_kind_has(resource: kinds.CustomResource) -> None:
    for column in resource.columns:
        at = schema_of(resource)
        for word in column.path.removeprefix(".").split("."):
            assert word in at["properties"], f"{resource.kind}: column {column.name} shows {column.path}"
            at = at["properties"][word]
        assert at.get("type") != "object", f"{resource.kind}: {column.path} is no value of its own"


@pytest.mark.parametrize("resource", kinds.RESOURCES, ids=lambda resource: resource.kind)
def test_a_line_of_kubectl_fits_and_says_how_old_the_object_is(resource: kinds.CustomResource) -> None:
    narrow = [column for column in resource.columns if not column.wide]
    assert kinds.AGE in narrow
    assert len(narrow) <= 8
