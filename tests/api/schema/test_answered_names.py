"""Names that the API server answers: each has a rule that refuses it, and none is on the page of fields."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cotenant.api.schema import crds, kinds, reference
from cotenant.api.validation.refused_names import REFUSED


def spec_of(kind: str) -> dict[str, Any]:
    (resource,) = [one for one in kinds.RESOURCES if one.kind == kind]
    schema: dict[str, Any] = crds.document(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: dict[str, Any] = schema["properties"]["spec"]
    return found


def test_a_refused_name_is_in_the_schema_with_its_answer() -> None:
    spec = spec_of("TrainingJob")
    assert spec["properties"]["replicas"] == {
        "description": "Not a field: write `spec.workers: 2`.",
        "x-kubernetes-int-or-string": True,
        "maxLength": 64,
        "x-kubernetes-validations": [
            {"rule": "false", "message": "is not a field of this object; write `spec.workers: 2`"}
        ],
    }


@pytest.mark.parametrize("resource", kinds.RESOURCES, ids=lambda resource: resource.kind)
def test_a_name_that_nobody_writes_costs_no_rule(resource: kinds.CustomResource) -> None:
    """For each field that a rule reads, the API server lists all fields, also the refused names."""
    root = crds.document(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    asked = re.compile(rf"has\(self\.({'|'.join({name for names in REFUSED.values() for name in names})})\)")
    looked = [rule["rule"] for node in nodes(root) for rule in node.get("x-kubernetes-validations", ())]
    assert [rule for rule in looked if rule.startswith("!") and asked.fullmatch(rule[1:])] == []


def nodes(schema: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [schema, *(found for one in inner for found in nodes(one))]


def test_what_a_job_needs_is_asked_for_with_an_example() -> None:
    spec = spec_of("TrainingJob")
    assert "required" not in spec
    asked = {rule["fieldPath"]: rule["message"] for rule in spec["x-kubernetes-validations"] if "reason" in rule}
    assert asked == {
        ".queue": "is required; write for example `spec.queue: team-a`",
        ".gpu": "is required; write for example `spec.gpu: {count: 1}`",
        ".runtime": 'is required; write for example `spec.runtime: {command: ["python", "train.py"]}`',
    }


@pytest.mark.parametrize("kind", ["TrainingJob", "Queue"])
def test_the_page_lists_names_apart_from_fields(kind: str) -> None:
    fields, _, names = reference.markdown().split(f"### {kind} spec", 1)[1].partition("| Not a field | Instead |")
    shown = {line.split("`")[1] for line in fields.splitlines() if line.startswith("| `")}
    assert shown & REFUSED[f"{kind}Spec"].keys() == set()
    assert any(f"| `spec.{name}` |" in names for name in REFUSED[f"{kind}Spec"])
