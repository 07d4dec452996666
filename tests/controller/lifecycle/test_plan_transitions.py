"""Statuses after a decision of the scheduler: admitted, resized, left to wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.isolation.verification import NOTHING
from cotenant.controller.lifecycle import plan_transitions
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.plan import Reason, Verdict
from tests.controller.builders import T0, admitted, job_document, placement_on


def told(message: str, reason: Reason = Reason.WAITING_FOR_GPUS) -> dict[str, Verdict]:
    return {"red/train": Verdict(job="red/train", reason=reason, message=message)}


def waits(verdict: Verdict) -> JobRecord:
    status = plan_transitions.waiting(TrainingJobStatus(observed_generation=1), verdict, T0)
    return read_job(job_document(status=status.to_document()))


def test_a_job_that_waits_for_the_same_reason_keeps_the_time_since_when() -> None:
    first = plan_transitions.waiting(TrainingJobStatus(), told("3 free")["red/train"], T0)
    second = plan_transitions.waiting(first, told("2 free")["red/train"], T0 + 60)
    other = plan_transitions.waiting(second, told("", Reason.BUDGET_SPENT)["red/train"], T0 + 90)
    since = [one.pending.since.timestamp() for one in (first, second, other) if one.pending and one.pending.since]
    assert since == [T0, T0, T0 + 90]


def test_a_resize_begins_the_next_attempt_and_charges_what_was_held_until_then() -> None:
    larger = placement_on(("n1", 1), ("n2", 1))
    resized = plan_transitions.resized(
        admitted(Phase.RUNNING, ("n1", 1)), larger, isolation=NOTHING, message="", milli=400, now=T0 + 100
    )
    assert (resized.phase, resized.attempts, resized.restarts) == (Phase.STARTING, 2, 1)
    assert resized.placement is not None
    assert [node.node for node in resized.placement.nodes] == ["n1", "n2"]
    assert resized.usage is not None
    assert resized.usage.gpu_milliseconds == 400 * 100


@pytest.mark.parametrize("servers", [0, 2])
def test_a_placement_says_how_many_servers_the_attempt_has(servers: int) -> None:
    status = admitted(Phase.STARTING, ("n1", 1), servers=servers)
    assert status.placement is not None
    assert (status.placement.servers or 0) == servers
    bare = plan_transitions.admitted(TrainingJobStatus(), placement_on(("n1", 1)), NOTHING, "", T0)
    grown = plan_transitions.resized(
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
    promised = plan_transitions.admitted(waits, place, NOTHING, "", T0, backfilled_until=T0 + 600)
    grown = plan_transitions.resized(
        promised, placement_on(("n1", 2)), isolation=NOTHING, message="", milli=0, now=T0 + 9
    )
    again = plan_transitions.admitted(waits, place, NOTHING, "", T0 + 700)
    found = [one.placement.backfilled_until for one in (promised, grown, again) if one.placement]
    assert [at and at.timestamp() for at in found] == [T0 + 600, T0 + 600, None]


@pytest.mark.parametrize("change", ["", "spec.gpu.count: 1"])
@pytest.mark.parametrize("fields", [(), (("spec.gpu.count", "1"),)])
def test_what_would_let_a_job_start_is_shown_where_it_is_known(
    change: str, fields: tuple[tuple[str, str], ...]
) -> None:
    verdict = Verdict(job="red/train", reason=Reason.WAITING_FOR_GPUS, message="", would_start_if=change, change=fields)
    pending = plan_transitions.waiting(TrainingJobStatus(), verdict, T0).pending
    assert pending is not None
    assert pending.would_start_if == (change or None)
    assert pending.change == (dict(fields) or None)


@pytest.mark.parametrize(("ahead", "shown"), [("", None), ("red/big starts first", "red/big starts first")])
def test_who_starts_first_is_shown_where_it_is_known(ahead: str, shown: str | None) -> None:
    verdict = replace(told("later")["red/train"], ahead=ahead)
    status = plan_transitions.waiting(TrainingJobStatus(), verdict, T0)
    assert status.pending is not None
    assert status.pending.ahead == shown
