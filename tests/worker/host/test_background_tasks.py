"""Concurrent tasks of a pod's first process: an error is not lost, and a cancellation is no error."""

from __future__ import annotations

import asyncio

from cotenant_worker.host.background_tasks import BackgroundTasks


async def fails() -> None:
    raise ValueError("broken")


async def succeeds() -> None:
    pass


async def test_the_error_of_a_task_is_reported_and_the_others_go_on() -> None:
    errors: list[str] = []
    tasks = BackgroundTasks(errors.append)
    going_on = asyncio.Event()
    for coroutine in (fails(), succeeds(), going_on.wait()):
        tasks.start(coroutine)
    for _ in range(3):
        await asyncio.sleep(0)
    assert (errors, len(tasks._running)) == (["ValueError: broken"], 1)
    tasks.cancel()


async def test_cancelled_tasks_end_without_an_error() -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))
    tasks = BackgroundTasks(errors.append)
    for _ in range(2):
        tasks.start(asyncio.Event().wait())
    tasks.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert (errors, len(tasks._running)) == ([], 0)
