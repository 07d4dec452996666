"""The virtual loop: time that costs nothing, an order that the seed draws, processes that stand still or die."""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

import pytest

from tests.support.simulation.virtual_loop import EPOCH, Process, VirtualLoop, context_of


def loop_of(seed: int = 1) -> VirtualLoop:
    return VirtualLoop(Random(seed))


def test_a_day_passes_at_once_and_both_clocks_show_it() -> None:
    async def main() -> tuple[float, float]:
        await asyncio.sleep(86_400)
        return time.time(), time.monotonic()

    began = time.perf_counter()
    assert loop_of().run(main()) == (EPOCH + 86_400, 86_400)
    assert time.perf_counter() - began < 60
    assert time.time() != EPOCH + 86_400


def order_of(seed: int) -> list[int]:
    found: list[int] = []

    async def step(number: int) -> None:
        await asyncio.sleep(1.0)
        found.append(number)

    async def main() -> None:
        await asyncio.gather(*(step(number) for number in range(8)))

    loop_of(seed).run(main())
    return found


def test_what_is_ready_at_once_runs_in_an_order_that_its_seed_draws() -> None:
    orders = [order_of(seed) for seed in range(5)]
    assert orders == [order_of(seed) for seed in range(5)]
    assert all(sorted(order) == list(range(8)) for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def ticking(process: Process, before: float) -> list[tuple[float, float]]:
    """(wall, monotonic) of a process that looks at its clocks once a second; `before`: what is done to it at 2.5 s."""
    seen: list[tuple[float, float]] = []

    async def tick() -> None:
        while True:
            seen.append((time.time() - EPOCH, time.monotonic()))
            await asyncio.sleep(1.0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        ticks = loop.create_task(tick(), context=context_of(process))
        await asyncio.sleep(2.5)
        if before:
            process.paused_until = before
        else:
            process.kill()
        await asyncio.sleep(5.0)
        ticks.cancel()

    loop_of().run(main())
    return seen


def test_a_process_that_is_killed_takes_no_step_more() -> None:
    assert [at for _, at in ticking(Process("a"), 0.0)] == [0.0, 1.0, 2.0]


def test_a_process_that_stands_still_goes_on_where_it_was() -> None:
    assert [at for _, at in ticking(Process("a"), 5.5)] == [0.0, 1.0, 2.0, 5.5, 6.5, 7.5]


def test_the_wall_clock_of_a_process_may_be_wrong_and_its_monotonic_clock_is_not() -> None:
    assert ticking(Process("a", clock_error_s=-30.0), 0.0) == [(-30.0, 0.0), (-29.0, 1.0), (-28.0, 2.0)]


def test_work_for_a_thread_is_done_and_its_error_is_raised_some_time_later() -> None:
    async def main() -> tuple[Any, float]:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.to_thread(lambda: "done"), time.monotonic()

    result, at = loop_of().run(main())
    assert (result, 0.0 < at < 5.0) == ("done", True)


def test_what_fails_in_a_callback_ends_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(1.0, lambda: 1 // 0)
        await asyncio.sleep(9.0)

    with pytest.raises(ZeroDivisionError):
        loop_of().run(main())


def test_a_world_in_which_nothing_will_happen_any_more_is_an_error() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="nothing will ever happen again"):
        loop_of().run(main())


def test_a_timer_that_was_cancelled_does_nothing() -> None:
    async def main() -> list[str]:
        found: list[str] = []
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, found.append, "one").cancel()
        loop.call_later(1.0, found.append, "two")
        await asyncio.sleep(2.0)
        return found

    assert loop_of().run(main()) == ["two"]
