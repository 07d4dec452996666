"""Statuses after a transition, and the patches that get them there. Pure."""

from __future__ import annotations

import pytest

from cotenant.api.resources.trainingjob_status import Isolation, TrainingJobStatus
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.lifecycle import status_transitions
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from cotenant.core.model.plan import Reason, Verdict
from tests.controller.builders import T0, admitted, job_document, placement_on


def truths(status: TrainingJobStatus) -> dict[str, str]:
    return {condition.type: condition.status for condition in status.conditions}


def test_the_phase_comes_from_the_table_and_nothing_else() -> None:
    with pytest.raises(status_transitions.UnexpectedEventError):
        status_transitions.moved(
            TrainingJobStatus(phase=Phase.SUCCEEDED), LifecycleEvent.ADMITTED, reason="", message="", now=T0
        )


def test_conditions_follow_a_job_through_its_life() -> None:
    starting = admitted(Phase.STARTING, ("n1", 1))
    running = admitted(Phase.RUNNING, ("n1", 1))
    done = status_transitions.finished(
        running, LifecycleEvent.COMPLETED, reason="Completed", message="", milli=400, over_at=T0 + 60, now=T0 + 60
    )
    assert [truths(one) for one in (starting, running, done)] == [
        {"Admitted": "True", "Running": "False"},
        {"Admitted": "True", "Running": "True"},
        {"Admitted": "False", "Running": "False", "Complete": "True"},
    ]


def test_a_condition_keeps_its_time_while_it_stays_what_it_is() -> None:
    running = admitted(Phase.RUNNING, ("n1", 1))
    times = {one.type: one.last_transition_time.timestamp() for one in running.conditions}
    assert times == {"Admitted": T0, "Running": T0 + 10}


def test_usage_adds_up_over_attempts() -> None:
    first = status_transitions.evicting(
        admitted(Phase.RUNNING, ("n1", 2)), LifecycleEvent.EVICTED, kind="Preempted", message="", now=T0 + 100
    )
    waits = status_transitions.released(first, milli=800, over_at=T0 + 100, now=T0 + 100)
    again = status_transitions.admitted(waits, placement_on(("n1", 2)), Isolation.NONE, "", T0 + 200)
    running = status_transitions.moved(again, LifecycleEvent.WORKERS_READY, reason="", message="", now=T0 + 210)
    done = status_transitions.finished(
        running, LifecycleEvent.COMPLETED, reason="", message="", milli=800, over_at=T0 + 300, now=T0 + 300
    )
    assert done.usage is not None
    assert (done.usage.gpu_milliseconds, done.usage.gpu_seconds, done.usage.run_seconds) == (160_000, 160, 180)
    assert (done.attempts, done.restarts, done.placement) == (2, 1, None)


def told(message: str, reason: Reason = Reason.WAITING_FOR_GPUS) -> dict[str, Verdict]:
    return {"red/train": Verdict(job="red/train", reason=reason, message=message)}


def waits(verdict: Verdict) -> JobRecord:
    status = status_transitions.waiting(TrainingJobStatus(observed_generation=1), verdict, T0)
    return read_job(job_document(status=status.to_document()))


def test_a_job_that_waits_for_the_same_reason_keeps_the_time_since_when() -> None:
    first = status_transitions.waiting(TrainingJobStatus(), told("3 free")["red/train"], T0)
    second = status_transitions.waiting(first, told("2 free")["red/train"], T0 + 60)
    other = status_transitions.waiting(second, told("", Reason.BUDGET_SPENT)["red/train"], T0 + 90)
    since = [one.pending.since.timestamp() for one in (first, second, other) if one.pending and one.pending.since]
    assert since == [T0, T0, T0 + 90]
