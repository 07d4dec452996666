"""Statuses after what happened to a job: phases, conditions, how attempts ended."""

from __future__ import annotations

import pytest

from cotenant.api.resources.trainingjob_status import ExitStatus, ProgressStatus, TrainingJobStatus
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.isolation.verification import NOTHING
from cotenant.controller.lifecycle import plan_transitions, status_transitions
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from cotenant.core.model.plan import Verdict
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


def waits(verdict: Verdict) -> JobRecord:
    status = plan_transitions.waiting(TrainingJobStatus(observed_generation=1), verdict, T0)
    return read_job(job_document(status=status.to_document()))


def reasons(status: TrainingJobStatus) -> dict[str, str]:
    return {condition.type: condition.reason for condition in status.conditions}


def test_the_condition_admitted_keeps_its_reason_while_the_job_holds_gpus_and_others_follow_the_phase() -> None:
    starting = admitted(Phase.STARTING, ("n1", 1))
    blocked = status_transitions.explained(starting, reason="PodsBlocked", message="no quota", now=T0 + 5)
    assert reasons(blocked) == {"Admitted": "Admitted", "Running": "PodsBlocked"}
    assert [one.message for one in blocked.conditions] == ["admitted", "no quota"]
    assert [one.last_transition_time.timestamp() for one in blocked.conditions] == [T0, T0]


def test_the_condition_admitted_has_the_reason_of_its_end_and_of_the_next_admission() -> None:
    left = status_transitions.released(admitted(Phase.EVICTING, ("n1", 1)), milli=400, over_at=T0 + 60, now=T0 + 60)
    assert reasons(left)["Admitted"] == "Preempted"
    again = plan_transitions.admitted(left, placement_on(("n1", 1)), NOTHING, "again", T0 + 90)
    assert reasons(again)["Admitted"] == "Admitted"
    assert again.conditions[0].last_transition_time.timestamp() == T0 + 90


def test_a_job_that_was_released_has_left_its_eviction_behind_it() -> None:
    evicting = admitted(Phase.EVICTING, ("n1", 1))
    assert evicting.eviction is not None
    assert not evicting.eviction.done
    left = status_transitions.released(evicting, milli=400, over_at=T0 + 60, now=T0 + 60)
    assert left.eviction is not None
    assert left.eviction.done


def test_restarts_of_ranks_in_their_pods_count_as_restarts_of_the_job_each_once() -> None:
    shown = []
    status = admitted(Phase.RUNNING, ("n1", 1))
    for restarts in (0, 1, 1, 3):
        status = status_transitions.with_progress(status, ProgressStatus(restarts=restarts))
        shown.append(status.restarts)
    status = plan_transitions.resized(
        status, placement_on(("n1", 2)), isolation=NOTHING, message="", milli=400, now=T0 + 100
    )
    shown.append(status.restarts)
    status = status_transitions.with_progress(status, ProgressStatus(restarts=1))
    assert [*shown, status.restarts, status.attempts] == [0, 1, 1, 3, 4, 5, 2]


@pytest.mark.parametrize(("before", "now", "counted"), [(2, 5, 10), (5, 5, 7), (5, 2, 7)], ids=str)
def test_restarts_add_up_and_a_new_attempt_begins_at_none(before: int, now: int, counted: int) -> None:
    status = TrainingJobStatus(progress=ProgressStatus(restarts=before), restarts=7)
    assert status_transitions.with_progress(status, ProgressStatus(restarts=now)).restarts == counted


def test_how_two_attempts_before_the_last_ended_stays_shorter() -> None:
    status = TrainingJobStatus(phase=Phase.RUNNING)
    for number in range(1, 6):
        lines = tuple(f"line {line} of {number}" for line in range(40))
        last = ExitStatus(code=number, reason="UserError", tail=lines)
        running = status.model_copy(update={"phase": Phase.RUNNING, "attempts": number})
        status = status_transitions.moved(
            running, LifecycleEvent.CRASHED, reason="UserError", message="", now=T0, last_exit=last
        )
        again = status.model_copy(update={"phase": Phase.RUNNING})  # told a second time of the same attempt
        status = status_transitions.moved(
            again, LifecycleEvent.GAVE_UP, reason="UserError", message="", now=T0, last_exit=last
        )
    written = status.to_document()
    assert written["lastExit"]["attempt"] == 5
    assert [(one["attempt"], one["code"], len(one["tail"]), one["tail"][-1]) for one in written["earlierExits"]] == [
        (3, 3, 10, "line 39 of 3"),
        (4, 4, 10, "line 39 of 4"),
    ]
