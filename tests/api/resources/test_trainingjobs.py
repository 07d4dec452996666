"""Rules of a TrainingJob at their bounds, each on the smallest job that it is about."""

from typing import Any

import pytest
from pydantic import ValidationError

from cotenant.api.resources.job_spec.machine import GpuSpec
from cotenant.api.resources.trainingjobs import TrainingJob

SPEC: dict[str, Any] = {"queue": "team-a", "gpu": {"count": 1}, "runtime": {"command": ["train"]}}


def job(name: str = "train", **spec: Any) -> TrainingJob:
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingJob", "metadata": {"name": name}}
    return TrainingJob.model_validate({**document, "spec": {**SPEC, **spec}})


def test_a_job_that_says_little_is_one_worker_that_is_tried_once() -> None:
    spec = job().spec
    assert (spec.workers, spec.min_workers, spec.retries, spec.grace_period, spec.suspend) == (1, None, 0, 30, False)
    assert (spec.resources.cpu, spec.resources.memory) == (1000, 4 << 30)
    assert job().key == "default/train"
    assert job().RULES[0].field == "metadata.name"


@pytest.mark.parametrize(
    "spec",
    [
        {"workers": 2048, "minWorkers": 2048},
        {"workers": 32, "gpu": {"count": 64}},
        {"gpu": {"count": 64}},
        {"gpu": {"memory": "1Mi", "computeFraction": "0.1"}},
        {"expectedRuntime": "1h", "maxRuntime": "1h"},
        {"checkpoint": {"path": "s3://bucket/runs"}},
        {"checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "c"}}, "path": "runs/today"}},
        {"priority": 1_000_000_000},
        {"retries": 100},
    ],
    ids=str,
)
def test_a_job_at_its_bounds_is_taken(spec: dict[str, Any]) -> None:
    job(**spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"workers": 2049}, "less than or equal to 2048"),
        ({"workers": 33, "gpu": {"count": 64}}, "workers × gpu.count is more than 2048, the most GPUs of one job"),
        ({"workers": 2, "minWorkers": 3}, "minWorkers must be at most workers"),
        ({"workers": {"min": 1}}, "for an elastic job write workers: <most> and minWorkers: <least>"),
        ({"gpu": {"count": 65}}, "at most 64; for more add workers"),
        ({"gpu": {}}, "gpu takes count, or one of memory and memoryFraction"),
        ({"gpu": {"memory": "1Gi", "memoryFraction": "0.5"}}, "gpu takes count, or one of memory and memoryFraction"),
        ({"workers": 1025, "gpu": {"count": 2, "memory": "1Gi"}}, "workers × gpu.count is more than 2048"),
        ({"gpu": {"count": 1, "computeFraction": "0.5"}}, "computeFraction belongs to a share"),
        ({"gpu": {"count": 1, "zones": ["a", "b", "a"]}}, "a zone appears twice"),
        ({"expectedRuntime": "61m", "maxRuntime": "1h"}, "expectedRuntime is longer than maxRuntime"),
        ({"priority": 1, "priorityClassName": "high"}, "priority and priorityClassName exclude each other"),
        ({"checkpoint": {}}, "a checkpoint needs a volume, or a path that is the address of a store"),
        ({"checkpoint": {"path": "runs/today"}}, "a checkpoint needs a volume, or a path"),
        (
            {"checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "c"}}, "path": "../other"}},
            "path is a folder inside it",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_job_that_contradicts_itself_is_refused_by_name(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        job(**spec)


@pytest.mark.parametrize(("name", "fits"), [("a" * 50, True), ("a" * 51, False), ("1a", False), ("a.b", False)])
def test_a_name_leaves_room_for_the_names_of_its_pods(name: str, fits: bool) -> None:
    if fits:
        assert job(name).metadata.name == name
        return
    with pytest.raises(ValidationError, match="a job's name must start with a letter and have at most 50"):
        job(name)


def test_what_a_job_runs_on_is_fixed_while_it_holds_gpus() -> None:
    rule = next(one for one in TrainingJob.TRANSITIONS if one.field == "spec")
    names = ("queue", "profile", "gpu", "resources", "runtime", "gracePeriod", "minWorkers", "topology", "spread")
    compared = [f"self.spec.{name} == oldSelf.spec.{name}" for name in names]
    workers = "self.spec.?workers.orValue(has(self.spec.profile) ? 0 : 1) == oldSelf.spec.?workers.orValue("
    assert (workers in rule.cel, "' spec.workers'" in rule.message_cel) == (True, True)
    assert [one in rule.cel for one in compared] == [True] * len(names)
    assert [f"' spec.{name}'" in rule.message_cel for name in names] == [True] * len(names)


def test_a_share_is_by_memory_or_by_fraction() -> None:
    assert GpuSpec.model_validate({"memoryFraction": "0.4"}).memory_fraction == 400
    assert GpuSpec.model_validate({"memory": "16Gi"}).memory == 16 << 30
