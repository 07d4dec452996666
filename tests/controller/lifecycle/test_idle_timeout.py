"""When a job was last active: by its steps, by its GPUs, by its attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_gpunode
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.contract import Progress
from cotenant.controller.informers.job_memory import Activity, JobMemory, ProgressSample
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.lifecycle.idle_timeout import activity_of
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, job_document


def running(**spec: Any) -> JobRecord:
    record = read_job(job_document(**({"idleTimeout": "5m"} | spec)))
    return replace(record, status=admitted(Phase.RUNNING, ("n1", 1)))


def agent(utilization: int) -> dict[str, GPUNode]:
    gpu = {"uuid": "GPU-n1-0", "index": 0, "class": "H100", "memoryMiB": 81920}
    used = {"memoryMiB": 1, "utilizationPercent": utilization}
    document = {
        "apiVersion": "cotenant.dev/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": "n1", "uid": "g"},
        "status": {"gpus": [gpu | {"used": used}]},
    }
    return {"n1": parse_gpunode(document)}


@pytest.mark.parametrize(
    ("before", "busy", "step_changed_at", "at"),
    [
        pytest.param(None, 0, None, T0 + 100, id="seen for the first time"),
        pytest.param(Activity(1, T0 + 20), 0, None, T0 + 20, id="nothing moves"),
        pytest.param(Activity(1, T0 + 20), 7, None, T0 + 100, id="a GPU is busy"),
        pytest.param(Activity(1, T0 + 20), 0, T0 + 60, T0 + 60, id="a step was made"),
        pytest.param(Activity(1, T0 + 80), 0, T0 + 60, T0 + 80, id="a GPU was busy after the last step"),
        pytest.param(Activity(0, T0 + 20), 0, None, T0 + 100, id="another attempt"),
    ],
)
def test_activity_is_the_last_that_was_seen_to_move(
    before: Activity | None, busy: int, step_changed_at: float | None, at: float
) -> None:
    record = running()
    sample = None if step_changed_at is None else ProgressSample(1, Progress(state="training"), step_changed_at)
    memory = JobMemory(record.id, activity=before, progress=sample)
    assert activity_of(record, memory, agent(busy), T0 + 100) == Activity(1, at)


def test_a_job_without_an_idle_timeout_and_one_that_does_not_run_have_no_activity() -> None:
    record = running()
    starting = replace(record, status=admitted(Phase.STARTING, ("n1", 1)))
    forever = running(idleTimeout=None)
    memory = JobMemory(record.id, activity=Activity(1, T0))
    assert [activity_of(one, memory, {}, T0 + 100) for one in (starting, forever)] == [None, None]
