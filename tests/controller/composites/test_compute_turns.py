"""One long decision at a time, and most of the time none."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random

import pytest

from cotenant.controller.composites.compute_turns import PAUSE, ComputeTurns
from tests.support.simulation.virtual_loop import VirtualLoop


async def decide(turns: ComputeTurns, seconds: float) -> tuple[float, float]:
    """When it began and ended."""
    async with turns:
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        return begun, asyncio.get_running_loop().time()


async def failing(turns: ComputeTurns) -> None:
    async with turns:
        await asyncio.sleep(1.0)
        raise RuntimeError("it failed")


@pytest.mark.parametrize("seed", range(3))
def test_turns_come_one_after_another_and_leave_two_thirds_of_the_time(seed: int) -> None:
    async def story() -> list[tuple[float, float]]:
        turns = ComputeTurns()
        return await asyncio.gather(*(decide(turns, seconds) for seconds in (3.0, 1.0, 2.0)))

    spans = sorted(VirtualLoop(Random(seed)).run(story()))
    pauses = [begun - ended for (_, ended), (begun, _) in pairwise(spans)]
    assert (spans[0][0], PAUSE) == (0.0, 2.0)
    assert pauses == pytest.approx([2 * (ended - begun) for begun, ended in spans[:-1]])


def test_one_that_is_cancelled_or_fails_leaves_the_turn_to_the_next() -> None:
    async def story() -> float:
        turns = ComputeTurns()
        await asyncio.wait([asyncio.create_task(failing(turns))])
        waiting = asyncio.create_task(decide(turns, 1.0))
        await asyncio.sleep(0.5)
        waiting.cancel()
        await asyncio.wait([waiting])
        begun, _ = await decide(turns, 1.0)
        return begun

    assert VirtualLoop(Random(1)).run(story()) == pytest.approx(3.0)
