"""The cache in sync with the cluster: resyncs, listings that fail, watch events, objects that cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from cotenant.controller.client.kube import PODS, SWEEPS, TRAINING_JOBS, Listing, MissingKindError, Resource
from cotenant.controller.informers.feed import kopf_feed
from cotenant.controller.informers.feed.cluster_feed import MISSING_S, RELIST_S, REOPEN_S
from tests.controller.builders import pod_document
from tests.controller.execution.replica import Replica, simulate_time, submit
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


async def test_a_resync_finds_what_the_watch_missed_and_drops_what_is_gone() -> None:
    replica = Replica()
    submit(replica.kube, "missed")
    replica.operator.feed.on_event(PODS, pod_document(version=1), False)
    await replica.operator.feed.resync()
    assert (list(replica.operator.cache.jobs), list(replica.operator.cache.pods.ours())) == (["red/missed"], [])


async def test_a_job_that_was_deleted_while_kopfs_watch_was_broken_is_gone_soon_after_kopf_has_listed() -> None:
    replica = Replica()
    for name in ("left", "deleted"):
        submit(replica.kube, name)
    feed = replica.operator.feed
    await feed.resync()
    replica.kube.remove(TRAINING_JOBS, "deleted", "red")
    replica.kube.faults.add(Fault(call="LIST *", lost="request"))  # the first answer is lost
    task = asyncio.create_task(feed.list_after_kopf())
    feed.on_listed(TRAINING_JOBS)
    await asyncio.sleep(3 * RELIST_S)
    task.cancel()
    assert list(replica.operator.cache.jobs) == ["red/left"]


async def test_a_restore_of_etcd_from_a_snapshot_after_the_last_list_is_noticed_at_the_next_list() -> None:
    replica = Replica()
    feed, kube = replica.operator.feed, replica.kube
    submit(kube, "listed")
    await feed.resync()
    submit(kube, "deleted")
    kube.deliver(feed.on_event)
    restore = kube.snapshot()
    kube.remove(TRAINING_JOBS, "deleted", "red")
    submit(kube, "later")
    kube.deliver(feed.on_event)
    restore()
    await feed.resync()
    assert sorted(replica.operator.cache.jobs) == ["red/deleted", "red/listed"]


async def test_kopf_begins_anew_with_a_kind_whose_definition_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, missing, watched = Replica(), {SWEEPS}, list[bool]()
    listed = replica.kube.list

    async def some(resource: Resource, *args: Any, **more: Any) -> Listing:
        if resource in missing:
            raise MissingKindError("list refused (404)")
        return await listed(resource, *args, **more)

    async def run(sink: kopf_feed.EventSink, resources: Iterable[Resource]) -> None:
        watched.append(SWEEPS in set(resources))
        await asyncio.Event().wait()

    monkeypatch.setattr(replica.kube, "list", some)
    monkeypatch.setattr(kopf_feed, "run", run)
    feed = replica.operator.feed
    await feed.resync()
    task = asyncio.create_task(feed.watch())
    await asyncio.sleep(3 * MISSING_S)
    before = list(watched)
    missing.clear()
    await asyncio.sleep(MISSING_S + 10.0)
    task.cancel()
    assert (before, watched) == ([False], [False, True])


async def test_kopf_begins_anew_when_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, starts = Replica(), list[float]()

    async def run(*_: Any) -> None:
        starts.append(asyncio.get_running_loop().time())
        raise kopf_feed.FeedStoppedError("ended")

    monkeypatch.setattr(kopf_feed, "run", run)
    await replica.operator.feed.resync()
    task = asyncio.create_task(replica.operator.feed.watch())
    await asyncio.sleep(2.5 * REOPEN_S)
    task.cancel()
    assert len(starts) == 3


async def test_a_listing_that_fails_is_repeated_soon_and_one_that_worked_after_the_resync_period() -> None:
    replica = Replica()
    replica.kube.faults.add(Fault(call="LIST *", lost="request"))
    task = asyncio.create_task(replica.operator.feed.keep_in_sync())
    period = replica.operator.settings.resync_s
    counts = []
    for seconds in (0.5, 1.0, period - 1.0, 1.0):
        await asyncio.sleep(seconds)
        counts.append(replica.kube.calls.count("LIST trainingjobs"))
    task.cancel()
    assert counts == [0, 1, 1, 2]


async def test_watch_events_are_taken_in_and_counted_by_resource() -> None:
    replica = Replica()
    submit(replica.kube)
    replica.kube.deliver(replica.operator.feed.on_event)
    counted = replica.operator.metrics.registry.get_sample_value
    assert list(replica.operator.cache.jobs) == ["red/train"]
    assert [counted("cotenant_watch_events_total", {"resource": one}) for one in ("trainingjobs", "nodes")] == [1, 2]


async def test_objects_that_cannot_be_read_are_counted_until_they_can() -> None:
    operator = Replica().operator
    counts = []
    for version, status in ((10, {}), (11, "not a status"), (12, {})):
        operator.feed.on_event(PODS, pod_document(0, status=status, version=version), False)
        counts.append(operator.metrics.registry.get_sample_value("cotenant_objects_unreadable", {"resource": "pods"}))
    assert counts == [0, 1, 0]
