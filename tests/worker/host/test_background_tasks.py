"""Concurrent tasks of a pod's first process: an error is not lost, and a cancellation is no error."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from cotenant_worker.host import background_tasks
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


@pytest.mark.looptime
@pytest.mark.parametrize("hour_s", [-3600.0, 3600.0], ids=["back", "forward"])
async def test_what_is_repeated_comes_as_often_and_learns_the_time_whatever_clock_somebody_sets(
    monkeypatch: pytest.MonkeyPatch, hour_s: float
) -> None:
    loop, read = asyncio.get_running_loop(), iter([1000.0])
    wall = SimpleNamespace(time=lambda: next(read, 1000.0 + hour_s), monotonic=loop.time)
    monkeypatch.setattr(background_tasks, "time", wall)
    begin, told = loop.time(), list[float]()
    tasks = BackgroundTasks(pytest.fail)
    tasks.every(2.0, told.append)
    await asyncio.sleep(7.0)
    tasks.cancel()
    assert [at - begin for at in told] == pytest.approx([2.0, 4.0, 6.0])
