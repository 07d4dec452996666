"""Names that the API server answers: each has a rule that refuses it, and none is on the page of fields."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.schema import answered_names, crds, reference
from cotenant.api.validation.refused_names import REFUSED


def spec_of(kind: str) -> dict[str, Any]:
    (resource,) = [one for one in crds.RESOURCES if one.kind == kind]
    schema: dict[str, Any] = crds.document(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: dict[str, Any] = schema["properties"]["spec"]
    return found


def test_a_refused_name_is_in_the_schema_with_its_answer() -> None:
    spec = spec_of("TrainingJob")
    assert spec["properties"]["replicas"] == {
        "description": "Not a field: write `spec.workers: 2`.",
        "x-kubernetes-int-or-string": True,
        "maxLength": 64,
    }
    (rule,) = [one for one in spec["x-kubernetes-validations"] if one.get("fieldPath") == ".replicas"]
    assert rule == {
        "rule": "!has(self.replicas)",
        "message": "is not a field of this object; write `spec.workers: 2`",
        "messageExpression": "'is not a field of this object; write `spec.workers: ' + string(self.replicas) + '`'",
        "fieldPath": ".replicas",
    }


def test_a_name_that_cel_cannot_spell_is_escaped() -> None:
    (rule,) = [one for one in answered_names.rules("Resources", TrainingJob) if "nvidia" in one["rule"]]
    assert (rule["rule"], rule["fieldPath"]) == ("!has(self.nvidia__dot__com__slash__gpu)", "['nvidia.com/gpu']")


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
