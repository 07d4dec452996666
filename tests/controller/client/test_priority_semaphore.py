"""Order and bound of the calls to the API server, on simulated time."""

from __future__ import annotations

import asyncio

import pytest

from cotenant.controller.client.priority_semaphore import PrioritySemaphore


@pytest.mark.looptime
async def test_the_important_go_first_and_never_more_than_the_limit_at_once() -> None:
    semaphore, inside, order, most = PrioritySemaphore(2), 0, [], 0

    async def call(priority: int, name: str) -> None:
        nonlocal inside, most
        async with semaphore.acquire(priority):
            inside += 1
            most = max(most, inside)
            order.append(name)
            await asyncio.sleep(1)
            inside -= 1

    await asyncio.gather(*(call(1, f"create-{i}") for i in range(4)), *(call(0, f"commit-{i}") for i in range(2)))
    assert (order, most) == (["create-0", "create-1", "commit-0", "commit-1", "create-2", "create-3"], 2)


@pytest.mark.looptime
async def test_a_cancelled_waiter_leaves_the_semaphore_whole() -> None:
    semaphore = PrioritySemaphore(1)

    async def call(seconds: float) -> None:
        async with semaphore.acquire(0):
            await asyncio.sleep(seconds)

    first = asyncio.create_task(call(5))
    impatient = [asyncio.create_task(call(1)) for _ in range(3)]
    await asyncio.sleep(1)
    for task in impatient:
        task.cancel()
    await first
    async with asyncio.timeout(2):
        await call(1)
