"""docs/switching.md: every field that it names exists, and old words in documents are answered as its tables say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cotenant.api.conversion.decode import check

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "switching.md").read_text()
JOB = {"queue": "a", "gpu": {"count": 1}, "runtime": {"command": ["true"]}}


def fields_of(kind: str) -> set[str]:
    section = (DOCS / "api.md").read_text().split(f"### {kind} spec\n", 1)[1].split("\n###", 1)[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


FIELDS = fields_of("TrainingJob") | fields_of("Queue")
NAMED = sorted(
    {match.removeprefix("spec.") for match in re.findall(r"`((?:spec\.|quotas\[\]\.)[A-Za-z.\[\]]+)[:`]", PAGE)}
)


@pytest.mark.parametrize("field", NAMED)
def test_a_field_on_the_page_exists(field: str) -> None:
    assert field in FIELDS


def test_the_page_names_many_fields() -> None:
    assert len(NAMED) > 25


def problems(kind: str, spec: dict[str, Any]) -> str:
    body = {"apiVersion": "cotenant.dev/v1beta1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    return "\n".join(map(str, check(body).problems))


@pytest.mark.parametrize(
    ("kind", "spec", "write"),
    [
        ("Queue", {"cohortName": "all"}, "spec.parent: all"),
        ("Queue", {"quotas": [{"nominalQuota": 4}]}, "spec.quotas[0].guaranteed: 4"),
        ("Queue", {"quotas": [{"guaranteed": 4, "borrowingLimit": 4}]}, "spec.quotas[0].limit"),
        ("Queue", {"quotas": [{"guaranteed": 4, "lendingLimit": 2}]}, "spec.quotas[0].lendable: 2"),
        ("Queue", {"deserved": 4}, "spec.quotas"),
        ("Queue", {"capability": 8}, "spec.quotas"),
        ("Queue", {"parentQueue": "all"}, "spec.parent: all"),
        ("Queue", {"overQuotaWeight": 3}, "spec.weight: 3"),
        ("Queue", {"preemptMinRuntime": "5m"}, 'spec.protectedRuntime: "5m"'),
        ("TrainingJob", {**JOB, "minAvailable": 1}, "spec.minWorkers: 1"),
        ("TrainingJob", {**JOB, "minMember": 1}, "spec.minWorkers: 1"),
        ("TrainingJob", {**JOB, "maxRetry": 2}, "spec.retries: 2"),
        ("TrainingJob", {**JOB, "backoffLimit": 2}, "spec.retries: 2"),
        ("TrainingJob", {**JOB, "ttlSecondsAfterFinished": 60}, "spec.ttlAfterFinished"),
        ("TrainingJob", {**JOB, "activeDeadlineSeconds": 60}, "spec.maxRuntime"),
        ("TrainingJob", {**JOB, "gpu": {"fraction": "0.5"}}, "spec.gpu.memoryFraction"),
        ("TrainingJob", {**JOB, "gpu": {"gpu-fraction": "0.5"}}, "spec.gpu.memoryFraction"),
        ("TrainingJob", {**JOB, "gpu": {"gpumem": 8000}}, "spec.gpu.memory"),
        ("TrainingJob", {**JOB, "gpu": {"gpucores": 30}}, "spec.gpu.computeFraction"),
        ("TrainingJob", {**JOB, "resources": {"nvidia.com/gpumem": 8000}}, 'spec.gpu.memory: "8000Mi"'),
        ("TrainingJob", {**JOB, "resources": {"nvidia.com/gpucores": 30}}, 'spec.gpu.computeFraction: "0.3"'),
        ("TrainingJob", {**JOB, "resources": {"volcano.sh/vgpu-number": 2}}, "spec.gpu: {count: 1}"),
        ("Queue", {"reclaimMinRuntime": "5m"}, "comes back at once"),
        ("TrainingJob", {**JOB, "rayClusterSpec": {}}, "spec.runtime.command"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_old_word_is_answered_with_the_new_one(kind: str, spec: dict[str, Any], write: str) -> None:
    assert write in problems(kind, spec)
