"""What attempts have cost, and what of it was lost to whom."""

from __future__ import annotations

import pytest

from cotenant.api.resources.trainingjob_status import CheckpointStatus, ProgressStatus, TrainingJobStatus
from cotenant.controller.isolation.verification import NOTHING
from cotenant.controller.lifecycle import plan_transitions, status_transitions
from cotenant.controller.lifecycle.attempt_usage import charged, unsaved_s
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, admitted, placement_on


def test_usage_adds_up_over_attempts() -> None:
    first = status_transitions.evicting(
        admitted(Phase.RUNNING, ("n1", 2)), LifecycleEvent.EVICTED, kind="Preempted", message="", now=T0 + 100
    )
    waits = status_transitions.released(first, milli=800, over_at=T0 + 100, now=T0 + 100)
    again = plan_transitions.admitted(waits, placement_on(("n1", 2)), NOTHING, "", T0 + 200)
    running = status_transitions.moved(again, LifecycleEvent.WORKERS_READY, reason="", message="", now=T0 + 210)
    done = status_transitions.finished(
        running, LifecycleEvent.COMPLETED, reason="", message="", milli=800, over_at=T0 + 300, now=T0 + 300
    )
    assert done.usage is not None
    assert (done.usage.gpu_milliseconds, done.usage.gpu_seconds, done.usage.run_seconds) == (160_000, 160, 180)
    assert (done.attempts, done.restarts, done.placement) == (2, 1, None)


def test_usage_is_in_whole_seconds_and_exact_beside_them() -> None:
    usage = charged(admitted(Phase.RUNNING, ("n1", 1)), T0 + 1000, milli=1999)
    assert (usage.gpu_seconds, usage.gpu_milliseconds, usage.run_seconds) == (1999, 1_999_000, 990)


def progress(step: int, saved: int | None = None, at: float | None = None) -> ProgressStatus:
    known = saved is not None or at is not None
    return ProgressStatus(step=step, last_checkpoint=CheckpointStatus(step=saved, at=at) if known else None)


@pytest.mark.parametrize(
    ("seen", "lost"),
    [
        (None, 100),
        (progress(9), 100),
        (progress(9, 5, T0 + 60), 40),
        (progress(9, 5, T0 - 60), 100),
        (progress(9, 9, T0 + 60), 0),
        (progress(9, 5), 0),
    ],
    ids=["nothing was told", "never saved", "since the checkpoint", "saved before it began", "all saved", "as it left"],
)
def test_lost_is_what_was_held_since_the_last_checkpoint(seen: ProgressStatus | None, lost: int) -> None:
    assert unsaved_s(TrainingJobStatus(progress=seen), T0, T0 + 100) == lost


@pytest.mark.parametrize(
    ("kind", "event", "preemption", "faults"),
    [
        ("Preempted", LifecycleEvent.EVICTED, 40_000, 0),
        ("Reclaimed", LifecycleEvent.EVICTED, 40_000, 0),
        ("Moved", LifecycleEvent.EVICTED, 40_000, 0),
        ("NodeLost", LifecycleEvent.EVICTED, 0, 40_000),
        ("UserError", LifecycleEvent.CRASHED, 0, 40_000),
        ("Suspended", LifecycleEvent.SUSPENDED, 0, 0),
    ],
)
def test_an_eviction_says_what_the_work_is_lost_to(
    kind: str, event: LifecycleEvent, preemption: int, faults: int
) -> None:
    running = admitted(Phase.RUNNING, ("n1", 1), progress=progress(9, 5, T0 + 60))
    leaving = status_transitions.evicting(running, event, kind=kind, message="", now=T0 + 99)
    usage = status_transitions.released(leaving, milli=1000, over_at=T0 + 100, now=T0 + 100, gpu_class="H100").usage
    assert usage is not None
    assert usage.last_held is not None
    assert (usage.lost_to_preemption_milliseconds, usage.lost_to_faults_milliseconds) == (preemption, faults)
    assert usage.last_held.to_document() == {
        "gpuClass": "H100", "milliGPU": 1000, "since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:01:40Z",
        "milliGPUSeconds": 100_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("event", "faults"),
    [(LifecycleEvent.COMPLETED, 0), (LifecycleEvent.DEADLINE, 0), (LifecycleEvent.GAVE_UP, 40_000)],
)
def test_a_run_that_is_over_lost_work_where_it_was_given_up(event: LifecycleEvent, faults: int) -> None:
    running = admitted(Phase.RUNNING, ("n1", 1), progress=progress(9, 5, T0 + 60))
    usage = status_transitions.finished(
        running, event, reason="", message="", milli=1000, over_at=T0 + 100, now=T0 + 100
    ).usage
    assert usage is not None
    assert (usage.lost_to_preemption_milliseconds, usage.lost_to_faults_milliseconds) == (0, faults)
