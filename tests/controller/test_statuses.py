"""Statuses after a transition, and the patches that get them there. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_job
from cotenant.api.resources.trainingjob_status import Isolation, TrainingJobStatus
from cotenant.controller.client.merge_patch import merge_patch
from cotenant.controller.execution.verdict_throttle import VerdictThrottle
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.words import gpu_request
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


def test_a_patch_says_only_what_changed_and_reads_back_as_the_status() -> None:
    before = admitted(Phase.STARTING, ("n1", 1))
    after = status_transitions.moved(
        before, LifecycleEvent.WORKERS_READY, reason="Running", message="2 workers", now=T0 + 10
    )
    change = merge_patch(before.to_document(), after)
    assert sorted(change) == ["conditions", "message", "phase", "reason"]
    assert TrainingJobStatus.model_validate(merged(before.to_document(), change)) == after


def test_what_is_gone_is_removed_by_the_patch() -> None:
    running = admitted(Phase.RUNNING, ("n1", 1))
    done = status_transitions.finished(
        running, LifecycleEvent.COMPLETED, reason="", message="", milli=400, over_at=T0 + 60, now=T0 + 60
    )
    change = merge_patch(running.to_document(), done)
    assert change["placement"] is None
    assert TrainingJobStatus.model_validate(merged(running.to_document(), change)) == done


def test_a_status_that_did_not_change_needs_no_patch() -> None:
    status = admitted(Phase.RUNNING, ("n1", 1))
    assert merge_patch(status.to_document(), status) == {}


def merged(old: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """RFC 7396."""
    result = dict(old)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"workers": 2, "gpu": {"memoryFraction": "0.4"}}, "2 × 0.4"),
        ({"workers": 1, "gpu": {"count": 4}}, "4"),
        ({"workers": 8, "gpu": {"count": 2}}, "8 × 2"),
        ({"workers": 3, "gpu": {"memory": "16Gi"}}, "3 × 16Gi"),
    ],
    ids=str,
)
def test_what_a_job_asks_for_in_short(spec: dict[str, Any], text: str) -> None:
    assert gpu_request(parse_job(job_document(**spec)).spec) == text


def told(message: str, reason: Reason = Reason.WAITING_FOR_GPUS) -> dict[str, Verdict]:
    return {"red/train": Verdict(job="red/train", reason=reason, message=message)}


def waits(verdict: Verdict) -> JobRecord:
    status = status_transitions.waiting(TrainingJobStatus(observed_generation=1), verdict, T0)
    return read_job(job_document(status=status.to_document()))


def test_a_verdict_is_written_when_its_reason_is_new_and_reworded_only_now_and_then() -> None:
    verdicts = VerdictThrottle(reword_s=30)
    new = {"red/train": read_job(job_document())}
    knows = {"red/train": waits(told("3 free")["red/train"])}
    written = [
        len(list(verdicts.verdicts_to_write(told("3 free"), new, T0))),
        len(list(verdicts.verdicts_to_write(told("3 free"), knows, T0 + 1))),
        len(list(verdicts.verdicts_to_write(told("2 free"), knows, T0 + 2))),
        len(list(verdicts.verdicts_to_write(told("2 free"), knows, T0 + 30))),
        len(list(verdicts.verdicts_to_write(told("2 free", Reason.BUDGET_SPENT), knows, T0 + 31))),
    ]
    assert written == [1, 0, 0, 1, 1]


def test_a_job_that_waits_for_the_same_reason_keeps_the_time_since_when() -> None:
    first = status_transitions.waiting(TrainingJobStatus(), told("3 free")["red/train"], T0)
    second = status_transitions.waiting(first, told("2 free")["red/train"], T0 + 60)
    other = status_transitions.waiting(second, told("", Reason.BUDGET_SPENT)["red/train"], T0 + 90)
    since = [one.pending.since.timestamp() for one in (first, second, other) if one.pending and one.pending.since]
    assert since == [T0, T0, T0 + 90]
