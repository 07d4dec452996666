"""The cache in sync with the cluster: resyncs, listings that fail, watch events, objects that cannot be read."""

from __future__ import annotations

import asyncio

import pytest

from cotenant.controller.client.kube import PODS
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
