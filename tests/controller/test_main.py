"""Supervision of the operator's parts, and what the probes are told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from cotenant.controller import main
from cotenant.controller.client.kube import PODS
from cotenant.controller.leader.lease_thread import LeaseThread
from tests.controller.builders import pod_document
from tests.controller.execution.replica import Replica, simulate_time, submit
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


class Journal:
    """Stands in for the thread of the Lease, and notes the order of what ends."""

    def __init__(self, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ended: list[str] = []
        self.stopped = asyncio.Event()
        self._operator = replica.operator
        self._parts: dict[str, Any] = {name: self._lasting(name) for name in ("feed", "loop")}
        monkeypatch.setattr(main.Operator, "tasks", lambda _: dict(self._parts))
        monkeypatch.setattr(type(replica.operator.loop), "stop", self._stop_loop)

    async def run(self, on_change: Callable[[bool], None]) -> None:
        await self._lasting("lease")

    async def stop(self) -> None:
        self.ended.append("lease given back")

    def let_fail(self, name: str, error: Exception | None) -> None:
        async def fail() -> None:
            await asyncio.sleep(1.0)
            if error is not None:
                raise error

        self._parts.pop(name).close()
        self._parts[name] = fail()

    async def supervise(self) -> int:
        return await main._supervise(self._operator, cast(LeaseThread, self), self.stopped)

    async def _stop_loop(self, _: object = None) -> None:
        self.ended.append("writes done")

    async def _lasting(self, name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(name)


async def test_a_signal_ends_all_parts_then_the_writes_then_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(Replica(), monkeypatch)
    asyncio.get_running_loop().call_later(1.0, journal.stopped.set)
    assert await journal.supervise() == 0
    assert (sorted(journal.ended[:-2]), journal.ended[-2:]) == (
        ["feed", "lease", "loop"],
        ["writes done", "lease given back"],
    )


@pytest.mark.parametrize("error", [ValueError("broken"), None], ids=["with an error", "without one"])
async def test_a_part_that_ends_by_itself_ends_the_operator_and_the_log_names_it(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(Replica(), monkeypatch)
    journal.let_fail("feed", error)
    assert await journal.supervise() == 1
    assert caplog.messages == ["feed has ended; the operator stops"]
    assert (sorted(journal.ended[:-2]), journal.ended[-2:]) == (["lease", "loop"], ["writes done", "lease given back"])
    assert ("broken" in caplog.text) is (error is not None)


async def test_a_loop_that_gives_no_sign_of_life_is_not_alive() -> None:
    operator = Replica().operator
    operator.loop.last_alive = time.monotonic() - main.STUCK_S + 1.0
    alive = operator.alive()
    operator.loop.last_alive -= 2.0
    assert (alive, operator.alive()) == ("", "the scheduling loop gave no sign of life for 61 s")


async def test_a_replica_is_ready_once_it_has_listed_the_cluster() -> None:
    operator = Replica().operator
    before = operator.ready()
    await operator.resync()
    assert (before, operator.ready()) == ("the cluster has not been listed yet", "")


async def test_a_resync_finds_what_the_watch_missed_and_drops_what_is_gone() -> None:
    replica = Replica()
    submit(replica.kube, "missed")
    replica.operator.on_event(PODS, pod_document(version=1), False)
    await replica.operator.resync()
    assert (list(replica.operator.cache.jobs), list(replica.operator.cache.pods.ours())) == (["red/missed"], [])


async def test_a_listing_that_fails_is_repeated_soon_and_one_that_worked_after_the_resync_period() -> None:
    replica = Replica()
    replica.kube.faults.add(Fault(call="LIST *", lost="request"))
    task = asyncio.create_task(replica.operator.keep_in_sync())
    period = replica.operator.settings.resync_s
    counts = []
    for seconds in (0.5, 1.0, period - 1.0, 1.0):
        await asyncio.sleep(seconds)
        counts.append(replica.kube.calls.count("LIST trainingjobs"))
    task.cancel()
    assert counts == [0, 1, 1, 2]


async def test_the_gauge_of_the_leader_follows_leadership_and_each_change_wakes_the_loop() -> None:
    operator = Replica().operator
    seen = []
    for leads in (True, False):
        operator.loop.wake_up.clear()
        operator.on_leadership(leads)
        seen.append((operator.metrics.registry.get_sample_value("cotenant_leader"), operator.loop.wake_up.is_set()))
    assert seen == [(1.0, True), (0.0, True)]


async def test_watch_events_are_taken_in_and_counted_by_resource() -> None:
    replica = Replica()
    submit(replica.kube)
    replica.kube.deliver(replica.operator.on_event)
    counted = replica.operator.metrics.registry.get_sample_value
    assert list(replica.operator.cache.jobs) == ["red/train"]
    assert [counted("cotenant_watch_events_total", {"resource": one}) for one in ("trainingjobs", "nodes")] == [1, 2]


async def test_objects_that_cannot_be_read_are_counted_until_they_can() -> None:
    operator = Replica().operator
    counts = []
    for version, status in ((10, {}), (11, "not a status"), (12, {})):
        operator.on_event(PODS, pod_document(0, status=status, version=version), False)
        counts.append(operator.metrics.registry.get_sample_value("cotenant_objects_unreadable", {"resource": "pods"}))
    assert counts == [0, 1, 0]
