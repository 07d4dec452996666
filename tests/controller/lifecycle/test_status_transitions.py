"""Statuses after a transition, and the patches that get them there. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.api.resources.trainingjob_status import ExitStatus, ProgressStatus, TrainingJobStatus
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.isolation.gpu_isolation import NOTHING
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
    again = status_transitions.admitted(waits, placement_on(("n1", 2)), NOTHING, "", T0 + 200)
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


def reasons(status: TrainingJobStatus) -> dict[str, str]:
    return {condition.type: condition.reason for condition in status.conditions}


def test_a_resize_begins_the_next_attempt_and_charges_what_was_held_until_then() -> None:
    larger = placement_on(("n1", 1), ("n2", 1))
    resized = status_transitions.resized(
        admitted(Phase.RUNNING, ("n1", 1)), larger, isolation=NOTHING, message="", milli=400, now=T0 + 100
    )
    assert (resized.phase, resized.attempts, resized.restarts) == (Phase.STARTING, 2, 1)
    assert resized.placement is not None
    assert [node.node for node in resized.placement.nodes] == ["n1", "n2"]
    assert resized.usage is not None
    assert resized.usage.gpu_milliseconds == 400 * 100


def test_the_condition_admitted_keeps_its_reason_while_the_job_holds_gpus_and_others_follow_the_phase() -> None:
    starting = admitted(Phase.STARTING, ("n1", 1))
    blocked = status_transitions.explained(starting, reason="PodsBlocked", message="no quota", now=T0 + 5)
    assert reasons(blocked) == {"Admitted": "Admitted", "Running": "PodsBlocked"}
    assert [one.message for one in blocked.conditions] == ["admitted", "no quota"]
    assert [one.last_transition_time.timestamp() for one in blocked.conditions] == [T0, T0]


def test_the_condition_admitted_has_the_reason_of_its_end_and_of_the_next_admission() -> None:
    left = status_transitions.released(admitted(Phase.EVICTING, ("n1", 1)), milli=400, over_at=T0 + 60, now=T0 + 60)
    assert reasons(left)["Admitted"] == "Preempted"
    again = status_transitions.admitted(left, placement_on(("n1", 1)), NOTHING, "again", T0 + 90)
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
    status = status_transitions.resized(
        status, placement_on(("n1", 2)), isolation=NOTHING, message="", milli=400, now=T0 + 100
    )
    shown.append(status.restarts)
    status = status_transitions.with_progress(status, ProgressStatus(restarts=1))
    assert [*shown, status.restarts, status.attempts] == [0, 1, 1, 3, 4, 5, 2]


@pytest.mark.parametrize("servers", [0, 2])
def test_a_placement_says_how_many_servers_the_attempt_has(servers: int) -> None:
    status = admitted(Phase.STARTING, ("n1", 1), servers=servers)
    assert status.placement is not None
    assert (status.placement.servers or 0) == servers
    bare = status_transitions.admitted(TrainingJobStatus(), placement_on(("n1", 1)), NOTHING, "", T0)
    grown = status_transitions.resized(
        admitted(Phase.RUNNING, ("n1", 1)),
        placement_on(("n1", 2)),
        isolation=NOTHING,
        message="",
        milli=0,
        now=T0,
    )
    assert [one.placement.servers or 0 for one in (bare, grown) if one.placement] == [0, 0]


def test_what_a_backfilled_job_promised_holds_over_a_resize_and_ends_with_its_placement() -> None:
    waits, place = TrainingJobStatus(), placement_on(("n1", 1))
    promised = status_transitions.admitted(waits, place, NOTHING, "", T0, backfilled_until=T0 + 600)
    grown = status_transitions.resized(
        promised, placement_on(("n1", 2)), isolation=NOTHING, message="", milli=0, now=T0 + 9
    )
    again = status_transitions.admitted(waits, place, NOTHING, "", T0 + 700)
    found = [one.placement.backfilled_until for one in (promised, grown, again) if one.placement]
    assert [at and at.timestamp() for at in found] == [T0 + 600, T0 + 600, None]


@pytest.mark.parametrize("change", ["", "spec.gpu.count: 1"])
@pytest.mark.parametrize("fields", [(), (("spec.gpu.count", "1"),)])
def test_what_would_let_a_job_start_is_shown_where_it_is_known(
    change: str, fields: tuple[tuple[str, str], ...]
) -> None:
    verdict = Verdict(job="red/train", reason=Reason.WAITING_FOR_GPUS, message="", would_start_if=change, change=fields)
    pending = status_transitions.waiting(TrainingJobStatus(), verdict, T0).pending
    assert pending is not None
    assert pending.would_start_if == (change or None)
    assert pending.change == (dict(fields) or None)


@pytest.mark.parametrize(("ahead", "shown"), [("", None), ("red/big starts first", "red/big starts first")])
def test_who_starts_first_is_shown_where_it_is_known(ahead: str, shown: str | None) -> None:
    verdict = replace(told("later")["red/train"], ahead=ahead)
    status = status_transitions.waiting(TrainingJobStatus(), verdict, T0)
    assert status.pending is not None
    assert status.pending.ahead == shown


@pytest.mark.parametrize(("before", "now", "counted"), [(2, 5, 10), (5, 5, 7), (5, 2, 7)], ids=str)
def test_restarts_add_up_and_a_new_attempt_begins_at_none(before: int, now: int, counted: int) -> None:
    status = TrainingJobStatus(progress=ProgressStatus(restarts=before), restarts=7)
    assert status_transitions.with_progress(status, ProgressStatus(restarts=now)).restarts == counted


def test_usage_is_in_whole_seconds_and_exact_beside_them() -> None:
    usage = status_transitions.charged(admitted(Phase.RUNNING, ("n1", 1)), T0 + 1000, milli=1999)
    assert (usage.gpu_seconds, usage.gpu_milliseconds, usage.run_seconds) == (1999, 1_999_000, 990)


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
