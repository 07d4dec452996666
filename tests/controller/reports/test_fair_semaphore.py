"""The flow that gets the next place of a shared semaphore, on simulated time."""

from __future__ import annotations

import asyncio
from collections import Counter

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.controller.reports.fair_semaphore import FairSemaphore

CALLS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5), st.booleans()), max_size=40)
"""(flow, seconds, whether it is cancelled half-way)."""


class Calls:
    """Calls through one semaphore: when each began, and the most that were under way at once."""

    def __init__(self, at_once: int, of_one: int) -> None:
        self.semaphore = FairSemaphore(at_once, of_one=of_one)
        self.began: list[tuple[float, str]] = []
        self.under_way: Counter[str] = Counter()
        self.most = 0
        self.most_of_one = 0

    async def call(self, flow: str, seconds: float) -> None:
        async with self.semaphore.acquire(flow):
            self.began.append((asyncio.get_running_loop().time(), flow))
            self.under_way[flow] += 1
            self.most = max(self.most, self.under_way.total())
            self.most_of_one = max(self.most_of_one, self.under_way[flow])
            try:
                await asyncio.sleep(seconds)
            finally:
                self.under_way[flow] -= 1


@pytest.mark.looptime
async def test_a_flow_with_little_goes_before_one_with_much_however_long_that_one_waits() -> None:
    calls = Calls(at_once=2, of_one=2)
    async with asyncio.TaskGroup() as group:
        for flow, seconds in [("greedy", 2.0)] * 6 + [("modest", 1.0)] * 2:
            group.create_task(calls.call(flow, seconds))
    assert calls.began == [
        (0.0, "greedy"),
        (0.0, "greedy"),
        (2.0, "modest"),
        (2.0, "greedy"),
        (3.0, "modest"),
        (4.0, "greedy"),
        (4.0, "greedy"),
        (6.0, "greedy"),
    ]


@pytest.mark.looptime
async def test_one_flow_leaves_room_for_others_that_are_not_there_yet() -> None:
    calls = Calls(at_once=4, of_one=2)
    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(calls.call("greedy", 2.0))
        await asyncio.sleep(0.5)
        group.create_task(calls.call("modest", 1.0))
    assert (calls.began[2], calls.most_of_one) == ((0.5, "modest"), 2)


@given(CALLS, st.integers(1, 6), st.integers(1, 6))
def test_no_more_than_allowed_are_under_way_and_every_place_comes_back(
    wanted: list[tuple[str, int, bool]], at_once: int, of_one: int
) -> None:
    async def story() -> Calls:
        calls = Calls(at_once, of_one)
        tasks = [asyncio.create_task(calls.call(flow, seconds)) for flow, seconds, _ in wanted]
        await asyncio.sleep(0)
        for task, (_, _, cancelled) in zip(tasks, wanted, strict=True):
            if cancelled:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        last = [asyncio.create_task(calls.call(f"last-{i}", 1)) for i in range(at_once)]
        before = len(calls.began)
        await asyncio.sleep(0.5)
        assert len(calls.began) - before == at_once, "all places are free again"
        await asyncio.gather(*last)
        return calls

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        calls = runner.run(story())
    assert calls.most <= at_once
    assert calls.most_of_one <= of_one
