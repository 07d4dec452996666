"""Supervision of the operator's parts: in which order they end, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from cotenant.controller import main
from cotenant.controller.client.fence import ARRIVE_S, Fence
from cotenant.controller.leader.lease_thread import LeaseThread
from tests.controller.execution.replica import Replica, simulate_time

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


class Journal:
    """Plays the Lease's thread, and notes in which order parts end."""

    def __init__(self, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ended: list[str] = []
        self.stopped = asyncio.Event()
        self.fence = Fence(lambda: True, clock=lambda: asyncio.get_running_loop().time())
        self._operator = replica.operator
        self._parts: dict[str, Any] = {name: self._lasting(name) for name in ("feed", "loop")}
        monkeypatch.setattr(type(replica.operator), "tasks", lambda _: dict(self._parts))
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
        return await main._supervise(self._operator, cast(LeaseThread, self), self.fence, self.stopped)

    async def _stop_loop(self, _: object = None) -> None:
        self.ended.append("writes done")

    async def _lasting(self, name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(name)


async def test_the_lease_is_given_away_when_what_was_sent_last_has_had_its_time_to_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, journal = asyncio.get_running_loop(), Journal(Replica(), monkeypatch)
    begun = loop.time()
    loop.call_later(0.5, journal.fence.check, "PATCH /a")
    loop.call_later(1.0, journal.stopped.set)
    assert await journal.supervise() == 0
    assert loop.time() - begun == pytest.approx(0.5 + ARRIVE_S, abs=0.01)


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
