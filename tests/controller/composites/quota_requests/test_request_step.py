"""What becomes of one QuotaRequest: asked, answered, granted, ended. Pure, no cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.api.conversion.quota_grants import effective_queues, grant_of
from cotenant.api.conversion.to_core import parse_quota_request
from cotenant.api.resources.quota_requests import QuotaRequest
from cotenant.controller.composites.quota_requests.request_step import next_step
from cotenant.core.model.objects import Quota, TenantQueue
from tests.controller.builders import T0
from tests.support.clusters import make_queue

UNTIL = "2026-01-02T00:00:00Z"
DAY = 86_400.0
RED = replace(make_queue("red"), quotas=(Quota(gpu_class="H100", guaranteed=2_000, limit=4_000),))


def request(status: dict[str, Any] | None = None, **spec: Any) -> QuotaRequest:
    asked = {"quotas": [{"gpuClass": "H100", "gpus": 4, "guaranteed": 1}], "until": UNTIL, "reason": "a paper"} | spec
    return parse_quota_request(
        {
            "apiVersion": "cotenant.dev/v1beta1", "kind": "QuotaRequest",
            "metadata": {"name": "more", "namespace": "red", "uid": "u1", "generation": 1},
            "spec": asked, "status": status or {},
        }
    )  # fmt: skip


def approval(decision: str = "Approved", **more: Any) -> dict[str, Any]:
    return {"decision": decision, "by": "grace", **more}


def stepped(before: QuotaRequest, now: float, *queues: TenantQueue, **answer: Any) -> QuotaRequest:
    """The request as it stands after a step, and with this answer."""
    status = dict(next_step(before, {one.name: one for one in queues or (RED,)}, now).status or {})
    if before.status.approval is not None:
        status["approval"] = before.status.approval.to_document()
    if answer:
        status["approval"] = approval(**answer)
    return before.model_copy(update={"status": type(before.status).model_validate(status)})


def phase(found: QuotaRequest) -> str:
    return found.status.phase


def conditions(found: QuotaRequest) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in found.status.conditions}


def limits(found: QuotaRequest, now: float, queue: TenantQueue = RED) -> list[tuple[int, int | None]]:
    """(guaranteed, limit) of each line of the queue with what is granted at this moment."""
    effective = effective_queues({queue.name: queue}, [found], now)
    return [(line.guaranteed, line.limit) for line in effective.queues[queue.name].quotas]


def test_a_request_waits_for_an_answer_and_grants_nothing() -> None:
    asked = stepped(request(), T0)

    assert (phase(asked), asked.status.queue) == ("Pending", "red")
    assert asked.status.message == (
        "an administrator has to answer: 4 GPUs of class H100 (1 guaranteed) for queue red until 2026-01-02T00:00:00Z"
    )
    assert conditions(asked) == {
        "Approved": ("Unknown", "NotAnswered"), "Applicable": ("True", "Adds"),
        "WithinParents": ("True", "WithinParents"), "Live": ("False", "Pending"),
    }  # fmt: skip
    assert limits(asked, T0) == [(2_000, 4_000)]


def test_an_approval_is_pinned_when_it_is_first_seen_and_ends_by_itself() -> None:
    answered = stepped(request(), T0, decision="Approved")
    assert limits(answered, T0 + 1) == [(2_000, 4_000)]  # nobody has pinned it yet

    granted = stepped(answered, T0 + 10)

    assert (phase(granted), conditions(granted)["Live"]) == ("Granted", ("True", "Granted"))
    assert limits(granted, T0 + 10) == [(3_000, 8_000)]
    assert limits(granted, T0 + DAY - 1) == [(3_000, 8_000)]
    assert limits(granted, T0 + DAY) == [(2_000, 4_000)]
    ended = stepped(granted, T0 + DAY)
    assert (phase(ended), ended.status.message) == ("Expired", "it ended at 2026-01-02T00:00:00Z")
    assert ended.status.granted == granted.status.granted


def test_an_approval_may_end_it_earlier_and_not_later() -> None:
    earlier = stepped(stepped(request(), T0, until="2026-01-01T12:00:00Z"), T0)
    later = stepped(stepped(request(), T0, until="2027-01-01T00:00:00Z"), T0)

    assert [limits(one, T0 + DAY / 2) for one in (earlier, later)] == [[(2_000, 4_000)], [(3_000, 8_000)]]
    assert limits(later, T0 + DAY) == [(2_000, 4_000)]


@pytest.mark.parametrize(
    ("granted_before", "want"),
    [
        (False, ("Denied", "grace denied it: not this month")),
        (True, ("Revoked", "grace took the approval back: not this month")),
    ],
    ids=["a request", "a grant"],
)
def test_a_denial_grants_nothing_and_takes_back_what_was_granted(granted_before: bool, want: tuple[str, str]) -> None:
    before = stepped(stepped(request(), T0, decision="Approved"), T0) if granted_before else stepped(request(), T0)
    denied = before.model_copy(update={"status": before.status.model_copy(update={"approval": None})})
    denied = stepped(stepped(denied, T0, decision="Denied", message="not this month"), T0 + 1)

    assert (phase(denied), denied.status.message) == want
    assert grant_of(denied) is None
    assert limits(denied, T0 + 1) == [(2_000, 4_000)]


def test_nothing_is_granted_to_another_spec_than_was_approved() -> None:
    granted = stepped(stepped(request(), T0, decision="Approved"), T0)
    larger = request(granted.status.to_document(), quotas=[{"gpuClass": "H100", "gpus": 400}])

    assert limits(larger, T0) == [(2_000, 4_000)]
    assert (phase(stepped(larger, T0)), stepped(larger, T0).status.message) == (
        "Invalid", "its spec is not the one that was approved: make another request",
    )  # fmt: skip


def test_a_request_that_nobody_answers_ends_too() -> None:
    ended = stepped(request(), T0 + DAY)

    assert (phase(ended), ended.status.message) == (
        "Expired", "nobody granted it before 2026-01-02T00:00:00Z",
    )  # fmt: skip
    assert phase(stepped(stepped(ended, T0 + DAY, decision="Approved"), T0 + DAY + 1)) == "Expired"


BLUE = replace(make_queue("blue"), namespaces=frozenset({"red", "blue"}))


@pytest.mark.parametrize(
    ("spec", "queues", "want"),
    [
        ({}, (RED, BLUE), "namespace red is served by blue or red: make a request that names one as spec.queue"),
        ({"queue": "green"}, (RED,), "queue green does not serve namespace red; it is served by red"),
        ({}, (make_queue("green"),), "no queue serves namespace red: ask an administrator to add it to one"),
    ],
    ids=["two queues", "another queue", "no queue"],
)
def test_a_request_that_no_queue_can_be_found_for_says_so(
    spec: dict[str, Any], queues: tuple[TenantQueue, ...], want: str
) -> None:
    asked = stepped(request(**spec), T0, *queues)

    assert (phase(asked), asked.status.message) == ("Invalid", want)


def test_a_queue_that_serves_the_namespace_no_longer_has_nothing_of_it() -> None:
    granted = stepped(stepped(request(), T0, decision="Approved"), T0)
    moved = replace(RED, namespaces=frozenset({"blue"}))

    assert limits(granted, T0, moved) == [(2_000, 4_000)]
    assert phase(stepped(granted, T0, moved)) == "Invalid"


def test_what_the_queues_above_have_no_room_for_is_said_before_it_is_approved() -> None:
    top = replace(make_queue("top"), namespaces=frozenset(), quotas=(Quota(guaranteed=2_000, limit=6_000),))
    asked = stepped(request(), T0, replace(RED, parent="top"), top)

    assert phase(asked) == "Pending"
    assert conditions(asked)["WithinParents"] == ("False", "BeyondParents")
    assert asked.status.message.endswith(". But queue top above may hold 6 GPU of class H100, zone any, and red 8 GPU")


def test_what_would_add_nothing_is_said_before_it_is_approved() -> None:
    wide = replace(RED, quotas=(Quota(limit=4_000),))
    asked = stepped(request(), T0, wide)

    assert conditions(asked)["Applicable"] == ("False", "AddsNothing")
    assert "ask for more of that quota" in asked.status.message


def test_it_is_told_once_and_looked_at_again_when_it_ends() -> None:
    queues = {"red": RED}
    first = next_step(request(), queues, T0)
    again = next_step(stepped(request(), T0), queues, T0 + 5)
    late = next_step(stepped(stepped(request(), T0, decision="Approved"), T0), queues, T0 + DAY - 10)

    assert [one.reason for one in first.events] == ["QuotaPending"]
    assert (again.events, again.look_again_at) == ((), T0 + 65)
    assert late.look_again_at == T0 + DAY
    assert next_step(stepped(request(), T0 + DAY), queues, T0 + DAY).look_again_at is None


def test_a_condition_keeps_the_moment_at_which_it_became_so() -> None:
    first = stepped(request(), T0)
    again = stepped(first, T0 + 60)

    moments = {one.last_transition_time for one in again.status.conditions}
    assert moments == {datetime.fromtimestamp(T0, UTC)}


def test_the_more_requests_there_are_the_longer_each_waits_for_the_next_look() -> None:
    """Ten thousand of them are looked at 33 times a second."""
    now = T0
    looks = [next_step(request(until="2090-01-01T00:00:00Z"), {"red": RED}, now, count).look_again_at
             for count in (1, 2_000, 10_000)]  # fmt: skip
    assert looks == [now + 60.0, now + 60.0, now + 300.0]
