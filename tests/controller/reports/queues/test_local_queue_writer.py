"""LocalQueues: one wherever a queue serves a namespace, written when something shows that is other."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.client.kube import (
    LOCAL_QUEUES,
    NAMESPACES,
    QUEUES,
    TRAINING_JOBS,
    FailedWebhookError,
    Outcome,
    Reply,
    UnreachableError,
)
from cotenant.controller.reports.queues import local_queue_writer
from cotenant.controller.reports.queues.local_queue_writer import LocalQueueWriter, local_queue
from tests.controller.execution.replica import Replica, simulate_time, submit, writes
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime
CREATE, STATUS = "POST localqueues/red", "PATCH localqueues/red/status"


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


def writer_of(replica: Replica) -> LocalQueueWriter:
    return replica.operator.local_queue_writer


async def round_of(replica: Replica) -> list[str]:
    """The writes of one round after what has happened was observed."""
    replica.observe()
    del replica.kube.calls[:]
    writer_of(replica).on_plan(replica.operator.cluster.snapshot(replica.operator.clock()))
    await writer_of(replica).write()
    return writes(replica.kube)


def shown(replica: Replica, namespace: str = "red", name: str = "red") -> dict[str, Any] | None:
    found = replica.kube.stored(LOCAL_QUEUES, name, namespace)
    return None if found is None else found["status"]


async def test_a_namespace_sees_what_its_queue_has_and_what_is_free_and_each_change_is_one_write() -> None:
    replica = Replica()
    assert await round_of(replica) == [CREATE, STATUS]
    assert shown(replica) == {
        "guaranteed": "4",
        "used": "0",
        "usedHere": "0",
        "borrowed": "0",
        "free": "4",
        "running": 0,
        "pending": 0,
        "quotas": [{"guaranteed": "4", "used": "0", "free": "4"}],
    }
    assert await round_of(replica) == []
    submit(replica.kube, workers=3)
    await replica.run(0.5)
    assert await round_of(replica) == [STATUS]
    found = shown(replica)
    assert found
    assert {name: found[name] for name in ("used", "usedHere", "free", "running", "pending")} == {
        "used": "3",
        "usedHere": "3",
        "free": "1",
        "running": 1,
        "pending": 0,
    }


async def test_what_is_left_of_a_budget_is_seen_where_the_queue_serves() -> None:
    replica = Replica()
    queue = replica.kube.stored(QUEUES, "red")
    assert queue is not None
    spec = queue["spec"] | {"budget": {"period": "Month", "gpuHours": 100}}
    spent = {"left": "63.25", "burnDown": "37 % spent, 52 % of the month over"}
    replica.kube.put(QUEUES, queue | {"spec": spec, "status": {"budget": spent}})
    await round_of(replica)
    found = shown(replica)
    assert found
    assert found["budget"] == {"left": "63", "moneyLeft": "", "burnDown": "37 % spent, 52 % of the month over"}
    replica.kube.put(QUEUES, queue)
    assert await round_of(replica) == [STATUS]
    found = shown(replica)
    assert found
    assert "budget" not in found


async def test_it_goes_when_the_queue_does_not_serve_the_namespace_any_more() -> None:
    replica = Replica()
    await round_of(replica)
    queue = replica.kube.stored(QUEUES, "red")
    assert queue is not None
    replica.kube.put(NAMESPACES, {"metadata": {"name": "blue"}})
    replica.kube.put(QUEUES, queue | {"spec": queue["spec"] | {"namespaces": ["blue"]}})
    assert await round_of(replica) == ["DELETE localqueues/red", CREATE, STATUS]
    assert (shown(replica), shown(replica, "blue") is not None) == (None, True)


async def test_a_queue_that_is_gone_leaves_none_also_after_a_restart() -> None:
    replica = Replica()
    await round_of(replica)
    replica.kube.remove(QUEUES, "red")
    restarted = Replica(replica.kube)
    await restarted.operator.feed.resync()
    assert await round_of(restarted) == ["DELETE localqueues/red"]


async def test_after_a_restart_what_is_there_is_not_written_again() -> None:
    replica = Replica()
    await round_of(replica)
    restarted = Replica(replica.kube)
    await restarted.operator.feed.resync()
    assert await round_of(restarted) == []


async def test_one_that_somebody_deleted_is_made_again() -> None:
    replica = Replica()
    await round_of(replica)
    replica.kube.remove(LOCAL_QUEUES, "red", "red")
    submit(replica.kube, workers=1)
    await replica.run(0.5)
    assert await round_of(replica) == [STATUS]  # which found nothing
    assert await round_of(replica) == [CREATE, STATUS]


async def test_a_namespace_that_does_not_exist_has_none() -> None:
    replica = Replica()
    replica.kube.remove(NAMESPACES, "red")
    assert await round_of(replica) == []


async def test_where_it_is_refused_it_is_left_for_a_while_and_others_are_written() -> None:
    replica = Replica()
    replica.kube.put(NAMESPACES, {"metadata": {"name": "blue"}})
    queue = replica.kube.stored(QUEUES, "red")
    assert queue is not None
    replica.kube.put(QUEUES, queue | {"spec": queue["spec"] | {"namespaces": ["blue", "red"]}})
    replica.kube.faults.add(Fault(call=CREATE, answer=Reply(Outcome.REFUSED, message="terminating", code=403)))
    await round_of(replica)
    assert (shown(replica, "blue"), shown(replica, "red") is not None) == (None, True)
    assert await round_of(replica) == []


async def test_a_webhook_that_does_not_answer_in_one_namespace_holds_up_no_other() -> None:
    replica = Replica()
    for name in ("blue", "yellow"):
        replica.kube.put(NAMESPACES, {"metadata": {"name": name}})
    queue = replica.kube.stored(QUEUES, "red")
    assert queue is not None
    replica.kube.put(QUEUES, queue | {"spec": queue["spec"] | {"namespaces": ["blue", "red", "yellow"]}})

    def fail() -> None:
        raise FailedWebhookError('failed calling webhook "validate.kyverno.svc-fail"')

    replica.kube.faults.add(Fault(call=CREATE, first=fail))
    await round_of(replica)
    assert [shown(replica, one) is not None for one in ("blue", "red", "yellow")] == [False, True, True]


async def test_one_that_cannot_be_removed_holds_up_no_other() -> None:
    replica = Replica()
    replica.kube.put(NAMESPACES, {"metadata": {"name": "blue"}})
    await round_of(replica)
    queue = replica.kube.stored(QUEUES, "red")
    assert queue is not None
    replica.kube.put(QUEUES, queue | {"spec": queue["spec"] | {"namespaces": ["blue"]}})

    def fail() -> None:
        raise FailedWebhookError('failed calling webhook "validate.kyverno.svc-fail"')

    replica.kube.faults.add(Fault(call="DELETE localqueues/red", first=fail))
    await round_of(replica)
    assert [shown(replica, one) is not None for one in ("blue", "red")] == [True, True]


async def test_a_round_has_so_many_writes_at_most_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_queue_writer, "WRITES_MAX", 2)
    replica = Replica()
    names = [f"n{number}" for number in range(5)]
    for name in names:
        replica.kube.put(NAMESPACES, {"metadata": {"name": name}})
    queue = replica.kube.stored(QUEUES, "red")
    assert queue is not None
    replica.kube.put(QUEUES, queue | {"spec": queue["spec"] | {"namespaces": names}})
    counts = []
    for _ in range(4):
        await round_of(replica)
        counts.append(len([*(await replica.kube.list(LOCAL_QUEUES)).items]))
    assert counts == [2, 4, 5, 5]


async def test_a_write_without_an_answer_is_looked_up_before_the_next() -> None:
    replica = Replica()
    replica.kube.faults.add(Fault(call=CREATE, lost="answer"))
    with pytest.raises(UnreachableError):
        await round_of(replica)
    replica.operator.leadership.changed(False)
    assert await round_of(replica) == [STATUS]


def test_an_object_names_nothing_but_the_queue() -> None:
    document = local_queue(("red", "team"))
    assert (document["metadata"]["name"], document["metadata"]["namespace"]) == ("team", "red")
    assert TRAINING_JOBS.plural not in str(document)
