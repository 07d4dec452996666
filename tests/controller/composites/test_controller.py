"""The reconciler of a kind that is made of others: the same end after a crash, a lost answer or a conflict anywhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cotenant.controller.client.kube import CONFIG_MAPS, FailedWebhookError, Outcome, Reply
from cotenant.controller.composites.composite import Composite
from tests.controller.builders import T0
from tests.controller.composites.pairs import (
    PAIRS,
    Pair,
    PairReplica,
    condition,
    halves,
    pair,
    reported,
    status,
)
from tests.controller.execution.replica import simulate_time, writes
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime
FIRST, SECOND, STATUS = "POST configmaps/a-0", "POST configmaps/a-1", "PATCH pairs/a/status"


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


def test_a_kind_is_a_composite() -> None:
    kind: Composite = Pair()
    assert kind.resource == PAIRS


async def test_it_makes_what_is_missing_once_and_reports_it_once() -> None:
    replica = PairReplica(FakeKube())
    pair(replica.kube)
    await replica.run()
    assert [call for call in writes(replica.kube) if "events" not in call and "WATCH" not in call] == [
        FIRST,
        SECOND,
        STATUS,
    ]
    assert halves(replica.kube) == ["1", "1"]
    assert await reported(replica.kube) == [("Pair", "a", "1")]
    made = replica.kube.stored(CONFIG_MAPS, "a-0", "red")
    assert made
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "Pair",
            "name": "a",
            "uid": (replica.kube.stored(PAIRS, "a", "red") or {})["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]


@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("call", [FIRST, SECOND, STATUS])
async def test_a_write_that_is_lost_is_made_again_and_nothing_twice(call: str, lost: Any) -> None:
    replica = PairReplica(FakeKube(Fault(call=call, lost=lost)))
    pair(replica.kube)
    await replica.run()
    assert halves(replica.kube) == ["1", "1"]
    assert status(replica.kube) == {"value": "1", "conditions": []}


@pytest.mark.parametrize("call", [FIRST, SECOND, STATUS])
@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_the_next_leader_goes_on_after_a_crash_between_any_two_writes(call: str, lost: Any) -> None:
    kube = FakeKube()
    first = PairReplica(kube)

    def crash() -> None:
        first.leads = False

    kube.faults.add(Fault(call=call, first=crash, lost=lost))
    pair(kube)
    await first.run()
    await PairReplica(kube).run()
    assert halves(kube) == ["1", "1"]
    assert status(kube) == {"value": "1", "conditions": []}


async def test_what_another_client_changes_is_put_right_also_under_its_hands() -> None:
    replica = PairReplica(FakeKube())
    pair(replica.kube)
    await replica.run()

    def edit() -> None:
        half = replica.kube.stored(CONFIG_MAPS, "a-0", "red")
        assert half
        replica.kube.put(CONFIG_MAPS, half | {"data": {"value": "other"}})

    replica.kube.faults.add(Fault(call="PATCH configmaps/a-0", first=edit))
    edit()
    await replica.run()
    assert halves(replica.kube) == ["1", "1"]
    assert condition(replica.kube) is None


async def test_what_somebody_deletes_is_made_again_and_what_is_not_wanted_goes() -> None:
    replica = PairReplica(FakeKube())
    made = pair(replica.kube)
    await replica.run()
    half = replica.kube.stored(CONFIG_MAPS, "a-1", "red")
    assert half
    more = {"name": "a-2", "namespace": "red", "ownerReferences": half["metadata"]["ownerReferences"]}
    replica.kube.put(CONFIG_MAPS, {"metadata": more, "data": {}})
    replica.kube.remove(CONFIG_MAPS, "a-1", "red")
    await replica.run()
    assert halves(replica.kube) == ["1", "1"]
    assert replica.kube.stored(CONFIG_MAPS, "a-2", "red") is None
    assert made["metadata"]["uid"]


async def test_a_namesake_that_is_not_ours_is_left_alone_and_named_in_the_status() -> None:
    replica = PairReplica(FakeKube())
    stranger = {"metadata": {"name": "a-0", "namespace": "red"}, "data": {"value": "theirs"}}
    replica.kube.put(CONFIG_MAPS, stranger)
    pair(replica.kube)
    pair(replica.kube, "b")
    await replica.run()
    assert halves(replica.kube) == ["theirs", None]
    assert condition(replica.kube) == (
        "True",
        "WriteRefused",
        "configmaps a-0 is there already, and is not made for this Pair; delete it, or give the Pair another name;"
        " it is tried again with growing pauses, and other objects go on without it",
    )
    assert halves(replica.kube, "b") == ["1", "1"]
    replica.kube.remove(CONFIG_MAPS, "a-0", "red")
    await replica.run(30.0)
    assert halves(replica.kube) == ["1", "1"]
    assert condition(replica.kube) == ("False", "Lifted", "the operator continues with the object")


async def test_a_webhook_that_does_not_answer_is_quoted_in_the_status_until_it_does() -> None:
    replica, words = PairReplica(FakeKube()), 'failed calling webhook "validate.kyverno.svc-fail": no endpoints'

    def fail() -> None:
        raise FailedWebhookError(words)

    replica.kube.faults.add(*(Fault(call=FIRST, first=fail) for _ in range(9)))
    pair(replica.kube)
    await replica.run(5.0)
    told = condition(replica.kube)
    assert told is not None
    assert (told[:2], words in told[2], halves(replica.kube)) == (("True", "WriteRefused"), True, [None, None])
    replica.kube.faults.pending.clear()
    await replica.run(60.0)
    assert (halves(replica.kube), (condition(replica.kube) or "")[0]) == (["1", "1"], "False")


async def test_what_is_refused_holds_up_no_change_of_what_is_there() -> None:
    """Trials are stopped at once, whatever becomes of the next one."""
    replica = PairReplica(FakeKube())
    replica.kube.put(CONFIG_MAPS, {"metadata": {"name": "a-1", "namespace": "red"}, "data": {"value": "theirs"}})
    pair(replica.kube)
    running = asyncio.create_task(replica.run(200.0))
    await asyncio.sleep(70.0)  # the pause is more than half a minute by now
    refused, tries = condition(replica.kube), replica.kube.calls.count("POST configmaps/a-1")
    half = replica.kube.stored(CONFIG_MAPS, "a-0", "red")
    assert half
    replica.kube.put(CONFIG_MAPS, half | {"data": {"value": "other"}})
    await asyncio.sleep(2.0)
    assert halves(replica.kube) == ["1", "theirs"]
    assert (condition(replica.kube), status(replica.kube).get("value")) == (refused, None)
    assert replica.kube.calls.count("POST configmaps/a-1") == tries
    replica.kube.remove(CONFIG_MAPS, "a-1", "red")
    await running
    assert (halves(replica.kube), (condition(replica.kube) or "")[0]) == (["1", "1"], "False")


async def test_the_objects_of_one_that_had_the_name_before_are_not_taken_over() -> None:
    replica = PairReplica(FakeKube())
    pair(replica.kube)
    await replica.run()
    replica.kube.remove(PAIRS, "a", "red")
    pair(replica.kube, value="2")
    await replica.run()
    assert halves(replica.kube) == ["1", "1"]
    assert (condition(replica.kube) or "")[1] == "WriteRefused"
    for half in ("a-0", "a-1"):  # as Kubernetes does, whose owner is gone
        replica.kube.remove(CONFIG_MAPS, half, "red")
    await replica.run(30.0)
    assert halves(replica.kube) == ["2", "2"]


async def test_one_that_cannot_be_decided_is_quarantined_with_growing_pauses_and_others_go_on() -> None:
    replica = PairReplica(FakeKube())
    pair(replica.kube, value="raises")
    pair(replica.kube, "b")
    await replica.run(100.0)
    assert condition(replica.kube) == (
        "True",
        "ReconcileFailed",
        "KeyError: 'value'; it is tried again with growing pauses, and other objects go on without it",
    )
    assert halves(replica.kube, "b") == ["1", "1"]
    tries = replica.pair.decided.count("a")
    assert 4 <= tries <= 9  # after 0, 1, 2, 4, 8 … s
    pair(replica.kube, value="3")
    await replica.run(1.0)
    assert halves(replica.kube) == ["3", "3"]
    assert (condition(replica.kube) or "")[0] == "False"


async def test_what_the_api_server_refuses_is_that_objects_failure() -> None:
    refused = Reply(Outcome.REFUSED, message="exceeded quota", code=403)
    replica = PairReplica(FakeKube(Fault(call=FIRST, answer=refused)))
    pair(replica.kube)
    pair(replica.kube, "b")
    await replica.run(0.5)
    assert (condition(replica.kube) or ("", "", ""))[2].startswith("configmaps a-0: exceeded quota;")
    assert halves(replica.kube, "b") == ["1", "1"]
    await replica.run(5.0)
    assert halves(replica.kube) == ["1", "1"]


async def test_a_replica_that_does_not_lead_writes_nothing_and_gets_on_when_it_does() -> None:
    replica = PairReplica(FakeKube())
    replica.leads = False
    pair(replica.kube)
    running = asyncio.create_task(replica.run(30.0))
    await asyncio.sleep(10.0)
    assert halves(replica.kube) == [None, None]
    replica.leads = True
    replica.controller.look_at_all()
    await asyncio.sleep(1.0)
    assert halves(replica.kube) == ["1", "1"]
    await running


async def test_one_that_is_being_deleted_is_left_to_kubernetes() -> None:
    replica = PairReplica(FakeKube())
    metadata = {"name": "a", "namespace": "red", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    replica.kube.put(PAIRS, {"metadata": metadata, "spec": {"value": "1"}})
    await replica.run()
    assert replica.pair.decided == []


async def test_it_is_looked_at_again_when_its_decision_asked_for_it() -> None:
    replica = PairReplica(FakeKube())
    pair(replica.kube, lookAgainAt=T0 + 50.0)
    running = asyncio.create_task(replica.run(60.0))
    await asyncio.sleep(49.0)
    before = len(replica.pair.decided)
    await running
    assert len(replica.pair.decided) > before
