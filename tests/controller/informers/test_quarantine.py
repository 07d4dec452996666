"""How long a job that the operator fails on is left alone, and what its conditions show of it. Pure."""

from __future__ import annotations

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.informers.quarantine import (
    EDITED_PAUSE_S,
    FORGET_S,
    HOLDING_PAUSE_MAX_S,
    MESSAGE_CHARS_MAX,
    PAUSE_MAX_S,
    Quarantine,
    Stage,
    quarantine_after,
    quarantine_in,
    with_condition,
)
from cotenant.controller.lifecycle import status_transitions
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, admitted


def failed(before: Quarantine | None = None, *, at: float = 0.0, error: str = "ValueError: no") -> Quarantine:
    return quarantine_after(before, Stage.RECONCILE, error, generation=1, holding=False, now=T0 + at)


def test_each_pause_is_as_long_as_all_before_it_together_up_to_the_longest() -> None:
    pauses, quarantine, at = [], failed(), 0.0
    for _ in range(12):
        pauses.append(quarantine.retry_at - quarantine.failed_at)
        at = quarantine.retry_at - T0
        quarantine = failed(quarantine, at=at)
    assert pauses == [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, *(PAUSE_MAX_S, PAUSE_MAX_S)]


@pytest.mark.parametrize(("holding", "pause"), [(False, 200.0), (True, HOLDING_PAUSE_MAX_S)])
def test_a_job_that_holds_gpus_is_tried_more_often(holding: bool, pause: float) -> None:
    again = quarantine_after(failed(), Stage.RECONCILE, "no", generation=1, holding=holding, now=T0 + 200.0)
    assert again.retry_at - again.failed_at == pause


@pytest.mark.parametrize(("later", "pause"), [(FORGET_S - 1, PAUSE_MAX_S), (FORGET_S, 1.0)])
def test_a_failure_continues_a_quarantine_that_is_not_long_over(later: float, pause: float) -> None:
    first = failed()
    first.lifted = True
    again = failed(first, at=later)
    assert (again.retry_at - again.failed_at, again.lifted) == (pause, False)


def test_a_document_that_was_edited_is_tried_soon_but_not_at_every_edit() -> None:
    quarantine = failed(failed(), at=100.0)
    moments = (100.0, 100.0 + EDITED_PAUSE_S, 200.0)
    held = {generation: [quarantine.holds(generation, T0 + at) for at in moments] for generation in (1, 2)}
    assert held == {1: [True, True, False], 2: [True, False, False]}


def test_the_next_leader_finds_in_the_conditions_since_when_and_goes_on_from_there() -> None:
    written = with_condition(admitted(Phase.RUNNING, ("n1", 1)), failed(failed(), at=40.0), T0 + 40.0)
    found = quarantine_in(written, generation=3, now=T0 + 60.0)
    assert found is not None
    assert (found.stage, found.since, found.retry_at, found.generation, found.reported, found.again) == (
        Stage.RECONCILE,
        T0,
        T0 + 60.0 + HOLDING_PAUSE_MAX_S,
        3,
        True,
        True,
    )
    found.lifted = True
    assert quarantine_in(with_condition(written, found, T0 + 70.0), generation=3, now=T0 + 80.0) is None


def test_a_condition_that_somebody_edited_is_a_quarantine_all_the_same() -> None:
    written = with_condition(TrainingJobStatus(), failed(), T0)
    edited = written.conditions[0].model_copy(update={"reason": "Magic"})
    found = quarantine_in(written.model_copy(update={"conditions": (edited,)}), generation=1, now=T0 - 1000.0)
    assert found is not None
    assert (found.stage, found.since, found.retry_at) == (Stage.EXECUTION, T0 - 1000.0, T0 - 999.0)


def test_the_condition_stays_through_every_transition_and_its_time_is_that_of_the_first_failure() -> None:
    running = with_condition(admitted(Phase.RUNNING, ("n1", 1)), failed(failed(), at=40.0), T0 + 40.0)
    evicting = status_transitions.evicting(running, LifecycleEvent.EVICTED, kind="Preempted", message="", now=T0 + 50.0)
    (condition,) = [one for one in evicting.conditions if one.type == "Quarantined"]
    assert (condition.status, condition.reason, condition.last_transition_time.timestamp()) == (
        "True",
        "ReconcileFailed",
        T0,
    )


def test_a_job_that_waits_says_that_it_is_quarantined_instead_of_its_last_verdict() -> None:
    status = with_condition(TrainingJobStatus(), failed(error="KeyError: 'x'"), T0)
    assert (status.phase, status.reason, status.pending and status.pending.reason, status.message) == (
        Phase.PENDING,
        "Quarantined",
        "Quarantined",
        "the operator cannot find the next step of the job: KeyError: 'x'; it is tried again with growing pauses, and"
        " other jobs go on without it",
    )


def test_a_quarantine_that_was_never_shown_leaves_no_condition_behind() -> None:
    quarantine = failed()
    quarantine.lifted = True
    assert with_condition(TrainingJobStatus(), quarantine, T0) == TrainingJobStatus()


def test_a_message_is_bounded_and_written_once_for_the_same_failure() -> None:
    quarantine = failed(error="x" * 10_000)
    quarantine.reported = True
    assert len(quarantine.message) <= MESSAGE_CHARS_MAX + 2
    same, other = failed(quarantine, at=2.0, error="x" * 10_000), failed(quarantine, at=2.0, error="y")
    assert (same.reported, other.reported) == (True, False)
