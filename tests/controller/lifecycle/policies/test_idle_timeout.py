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
from cotenant.controller.lifecycle.policies import idle_timeout
from cotenant.controller.lifecycle.policies.idle_timeout import activity_of
from cotenant.controller.lifecycle.termination import Finish
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, admitted, job_document, observed

SETTINGS = Settings()


def running(**spec: Any) -> JobRecord:
    record = read_job(job_document(**({"idleTimeout": "5m"} | spec)))
    return replace(record, status=admitted(Phase.RUNNING, ("n1", 1)))


def agent(utilization: int) -> dict[str, GPUNode]:
    gpu = {"uuid": "GPU-n1-0", "index": 0, "class": "H100", "memoryMiB": 81920}
    used = {"memoryMiB": 1, "utilizationPercent": utilization}
    document = {
        "apiVersion": "cotenant.dev/v1beta1",
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
    begun = before is not None and before.attempt == 1
    assert activity_of(record, memory, agent(busy), T0 + 100) == Activity(1, at, begun)


@pytest.mark.parametrize(
    ("busy", "step", "begun"),
    [(0, 0, False), (7, 0, True), (0, 1, True)],
    ids=["it imports", "a GPU is busy", "a step"],
)
def test_a_job_has_begun_with_its_first_step_or_its_first_use_of_a_gpu(busy: int, step: int, begun: bool) -> None:
    record = running()
    sample = ProgressSample(1, Progress(state="running", step=step), T0 + 60)
    memory = JobMemory(record.id, activity=Activity(1, T0 + 20, begun=False), progress=sample)
    found = activity_of(record, memory, agent(busy), T0 + 100)
    assert found == Activity(1, T0 + 100 if busy else T0 + 60, begun)


def test_a_job_that_has_not_begun_has_time_for_its_imports() -> None:
    o = observed(
        admitted(Phase.RUNNING, ("n1", 1)), now=T0 + 959, spec={"idleTimeout": "5m"}, idle_since=T0 + 60, begun=False
    )
    assert (idle_timeout.deadline(o, SETTINGS), idle_timeout.ending(o, SETTINGS)) == (T0 + 960, None)
    over = idle_timeout.ending(replace(o, now=T0 + 960), SETTINGS)
    assert over is not None
    assert over.message.endswith("(spec.idleTimeout), and 600 s more for imports before the first step")


def test_a_job_without_an_idle_timeout_and_one_that_does_not_run_have_no_activity() -> None:
    record = running()
    starting = replace(record, status=admitted(Phase.STARTING, ("n1", 1)))
    forever = running(idleTimeout=None)
    memory = JobMemory(record.id, activity=Activity(1, T0))
    assert [activity_of(one, memory, {}, T0 + 100) for one in (starting, forever)] == [None, None]


@pytest.mark.parametrize(
    ("phase", "spec", "idle_since"),
    [
        pytest.param(Phase.STARTING, {"idleTimeout": "5m"}, T0, id="a job that does not run yet"),
        pytest.param(Phase.RUNNING, {}, T0, id="a job without an idle timeout"),
        pytest.param(Phase.RUNNING, {"idleTimeout": "5m"}, None, id="a job whose activity nobody has looked at"),
    ],
)
def test_there_is_no_deadline_for(phase: Phase, spec: dict[str, Any], idle_since: float | None) -> None:
    o = observed(admitted(phase, ("n1", 1)), now=T0 + 9999, spec=spec, idle_since=idle_since)
    assert (idle_timeout.deadline(o, SETTINGS), idle_timeout.ending(o, SETTINGS)) == (None, None)


@pytest.mark.parametrize(("now", "ends"), [(T0 + 359, False), (T0 + 360, True), (T0 + 361, True)])
def test_an_idle_job_ends_at_the_second_of_its_deadline(now: float, ends: bool) -> None:
    o = observed(admitted(Phase.RUNNING, ("n1", 1)), now=now, spec={"idleTimeout": "5m"}, idle_since=T0 + 60)
    finish = Finish(
        event=LifecycleEvent.DEADLINE,
        reason="IdleTimeout",
        message="no step was made and no GPU was busy for 300 s (spec.idleTimeout)",
    )
    assert idle_timeout.deadline(o, SETTINGS) == T0 + 360
    assert idle_timeout.ending(o, SETTINGS) == (finish if ends else None)


def test_a_job_that_waits_for_its_data_is_not_idle() -> None:
    record, sample = running(), ProgressSample(1, Progress(state="staging", staging_bytes=9), T0 + 60)
    memory = JobMemory(record.id, activity=Activity(1, T0 + 20, begun=False), progress=sample)
    assert activity_of(record, memory, agent(0), T0 + 900) == Activity(1, T0 + 900, begun=False)
