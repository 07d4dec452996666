"""A grant in the whole operator, on the double of the API server: approved, it lets a job start; ended, it is over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cotenant import names
from cotenant.api.conversion.to_core import to_queue
from cotenant.controller.client.kube import (
    EVENTS,
    NAMESPACES,
    QUEUES,
    QUOTA_REQUESTS,
    TRAINING_JOBS,
    Listing,
    MissingKindError,
    Resource,
)
from cotenant.controller.composites.composite import Observed
from cotenant.controller.composites.quota_requests import quota_request_kind
from cotenant.controller.informers.cache import ObjectCache
from tests.controller.builders import T0
from tests.controller.execution.replica import Replica, phase, simulate_time, status, submit
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime
ENDS_S = 15.0
UNTIL = "2026-01-01T00:00:15Z"


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


def limited(kube: FakeKube, limit: int = 2, **more: Any) -> None:
    document = kube.stored(QUEUES, "red") or {}
    spec = {"namespaces": ["red"], "quotas": [{"guaranteed": 0, "limit": limit}]} | more
    kube.put(QUEUES, document | {"spec": spec})


def ask(kube: FakeKube, name: str = "more", gpus: int = 2) -> None:
    spec = {"quotas": [{"gpus": gpus, "guaranteed": gpus}], "until": UNTIL, "reason": "a paper"}
    metadata = {"name": name, "namespace": "red", "generation": 1}
    kube.put(
        QUOTA_REQUESTS,
        {"apiVersion": names.API_VERSION, "kind": "QuotaRequest", "metadata": metadata, "spec": spec},
    )


def answer(kube: FakeKube, decision: str = "Approved", name: str = "more") -> None:
    known = kube.stored(QUOTA_REQUESTS, name, "red") or {}
    approval = {"decision": decision, "by": "grace"}
    kube.put(QUOTA_REQUESTS, known | {"status": {**(known.get("status") or {}), "approval": approval}})


def request(kube: FakeKube, name: str = "more") -> dict[str, Any]:
    return (kube.stored(QUOTA_REQUESTS, name, "red") or {}).get("status") or {}


async def run(replica: Replica, seconds: float = 5.0) -> None:
    """The loop and the reconciler of requests; the watch hands on what happens."""
    await replica.operator.feed.resync()
    parts = [one.run() for one in replica.operator.composites if one.composite.resource == QUOTA_REQUESTS]
    tasks = [asyncio.create_task(one) for one in (*parts, replica.operator.event_recorder.run())]
    await replica.run(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_job_beyond_the_limit_starts_once_its_request_is_approved() -> None:
    replica = Replica()
    limited(replica.kube)
    submit(replica.kube)  # four GPUs
    ask(replica.kube)
    await run(replica)
    before = phase(replica.kube), status(replica.kube)["pending"]["reason"], request(replica.kube)["phase"]

    answer(replica.kube)
    await run(replica)

    assert before == ("Pending", "ExceedsLimit", "Pending")
    assert request(replica.kube)["phase"] == "Granted"
    assert request(replica.kube)["approval"] == {"decision": "Approved", "by": "grace"}
    assert phase(replica.kube) == "Starting"


async def test_what_runs_on_a_grant_goes_on_when_it_ends_until_another_queue_asks() -> None:
    replica = Replica()
    limited(replica.kube)
    submit(replica.kube)
    ask(replica.kube)
    answer(replica.kube)
    await run(replica)
    await run(replica, ENDS_S)

    ended, alone = request(replica.kube)["phase"], phase(replica.kube)
    spec = {"namespaces": ["blue"], "quotas": [{"guaranteed": 4}]}
    replica.kube.put(NAMESPACES, {"metadata": {"name": "blue"}})
    replica.kube.put(
        QUEUES, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "blue"}, "spec": spec}
    )
    job = submit(replica.kube, "claims")
    replica.kube.remove(TRAINING_JOBS, "claims", "red")
    metadata = {"name": "claims", "namespace": "blue"}
    replica.kube.put(TRAINING_JOBS, {**job, "metadata": metadata, "spec": {**job["spec"], "queue": "blue"}})
    await run(replica)

    assert (ended, alone) == ("Expired", "Starting")
    assert phase(replica.kube) in {"Evicting", "Pending"}


async def test_a_revoked_grant_counts_no_more() -> None:
    replica = Replica()
    limited(replica.kube)
    ask(replica.kube)
    answer(replica.kube)
    await run(replica)
    answer(replica.kube, "Denied")
    await run(replica)
    submit(replica.kube)
    await run(replica)

    assert request(replica.kube)["phase"] == "Revoked"
    assert status(replica.kube)["pending"]["reason"] == "ExceedsLimit"


async def test_each_turn_of_a_request_is_an_event_about_it() -> None:
    replica = Replica()
    ask(replica.kube)
    await run(replica)
    answer(replica.kube)
    await run(replica)
    await run(replica, ENDS_S)

    events = {
        (one["involvedObject"]["kind"], one["involvedObject"]["name"], one["reason"])
        for one in (await replica.kube.list(EVENTS)).items
    }
    assert events == {("QuotaRequest", "more", one) for one in ("QuotaPending", "QuotaGranted", "QuotaExpired")}
    assert len([*(await replica.kube.list(EVENTS)).items]) == len(events)


async def test_a_new_leader_knows_the_grants_before_its_first_decision() -> None:
    first = Replica()
    limited(first.kube)
    submit(first.kube)
    ask(first.kube)
    answer(first.kube)
    await run(first)
    first.lose()

    second = Replica(first.kube)
    await second.operator.feed.resync()
    second.operator.cluster.restore(0.0)
    second.operator.cluster.sync(1.0)
    (queue,) = second.operator.cluster.snapshot(1.0).queues

    assert [(line.guaranteed, line.limit) for line in queue.quotas] == [(2_000, 4_000)]


async def test_without_the_definition_of_requests_everything_else_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade has brought the operator, and its CustomResourceDefinitions are applied later."""
    replica = Replica()
    listed = replica.kube.list

    async def without(resource: Resource, *args: Any, **more: Any) -> Listing:
        if resource == QUOTA_REQUESTS:
            raise MissingKindError("list of quotarequests refused (404)")
        return await listed(resource, *args, **more)

    monkeypatch.setattr(replica.kube, "list", without)
    submit(replica.kube)
    await replica.operator.feed.resync()
    await replica.run()

    assert phase(replica.kube) == "Starting"


async def test_a_request_that_cannot_be_read_is_named_and_grants_nothing() -> None:
    replica = Replica()
    ask(replica.kube)
    broken = (replica.kube.stored(QUOTA_REQUESTS, "more", "red") or {}) | {"spec": {"quotas": 7}}
    replica.kube.put(QUOTA_REQUESTS, broken)
    await run(replica)

    assert list(replica.operator.cache.unreadable) == [("quotarequests", "red/more")]
    (condition,) = request(replica.kube)["conditions"]
    assert (condition["type"], condition["status"]) == ("Quarantined", "True")


def test_queues_are_read_once_for_all_requests_until_one_of_them_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, reads = ObjectCache(), list[str]()

    def counted(queue: Any, **more: Any) -> Any:
        reads.append(queue.metadata.name)
        return to_queue(queue, **more)

    monkeypatch.setattr(quota_request_kind, "to_queue", counted)
    kube = FakeKube()
    kube.put(QUEUES, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "red"}})
    limited(kube)
    for number in range(3):
        ask(kube, f"more-{number}")
    cache.put(QUEUES, kube.stored(QUEUES, "red") or {})
    kind = quota_request_kind.QuotaRequestKind(cache, labelled_only=False)

    def phases() -> set[str]:
        asked = [kube.stored(QUOTA_REQUESTS, f"more-{number}", "red") or {} for number in range(3)]
        return {(kind.decide(Observed(document=one), T0).status or {})["phase"] for one in asked}

    assert (phases(), reads) == ({"Pending"}, ["red"])
    limited(kube, 4, namespaces=["blue"])
    cache.put(QUEUES, kube.stored(QUEUES, "red") or {})
    assert (phases(), reads) == ({"Invalid"}, ["red", "red"])
