"""Writes under way: what comes of the job when one ends, well or not."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest

from cotenant.controller.client.kube import FailedWebhookError, RefusedError, UnreachableError
from cotenant.controller.execution.containment.containment import Containment
from cotenant.controller.execution.loop.job_writes import DRAIN_S, JobWrites
from cotenant.controller.execution.loop.work_queue import WorkQueue
from cotenant.controller.execution.writes.executor import RETRY_S, ExecutionResult
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.telemetry.metrics import Metrics

pytestmark = pytest.mark.looptime

JOB, NOW = JobId("red", "train", "u1"), 1000.0


def new_writes(on_end: Callable[[], None] = lambda: None) -> JobWrites:
    memories = JobMemories()
    containment = Containment(cache=ObjectCache(), memories=memories, metrics=Metrics())
    return JobWrites(
        queue=WorkQueue(), memories=memories, containment=containment, leadership=Leadership(lambda: True),
        clock=lambda: NOW, on_end=on_end,
    )  # fmt: skip


async def end(outcome: ExecutionResult | BaseException) -> ExecutionResult:
    await asyncio.sleep(1.0)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


@pytest.mark.parametrize(
    ("outcome", "ready", "next_at", "undone", "stage"),
    [
        pytest.param(ExecutionResult(), [JOB], None, [], None, id="done: looked at again"),
        pytest.param(ExecutionResult(NOW + 9), [], NOW + 9, [], None, id="done, and due later"),
        pytest.param(UnreachableError("no answer"), [], NOW + RETRY_S, [], None, id="no answer: soon"),
        pytest.param(ValueError("a defect"), [JOB], None, [1], "ExecutionFailed", id="a defect: contained"),
        pytest.param(RefusedError("too large (413)"), [JOB], None, [1], "WriteRefused", id="refused: contained"),
        pytest.param(FailedWebhookError("no"), [JOB], None, [1], "WriteRefused", id="a silent webhook: contained"),
    ],
)
async def test_a_job_is_looked_at_again_when_its_write_has_ended(
    outcome: ExecutionResult | BaseException,
    ready: list[JobId],
    next_at: float | None,
    undone: list[int],
    stage: str | None,
) -> None:
    undo: list[int] = []
    writes = new_writes()
    writes.start(JOB, end(outcome), lambda: undo.append(1))
    await asyncio.sleep(0.5)
    under_way = JOB in writes.queue
    await asyncio.sleep(1.0)
    quarantine = writes.memories[JOB].quarantine
    assert (under_way, JOB in writes.queue, writes.queue.next_at(), undo) == (True, False, next_at, undone)
    assert (writes.queue.get(NOW), quarantine and quarantine.stage.value) == (ready, stage)


async def test_a_plan_that_was_missed_is_due_when_the_write_has_ended() -> None:
    ended: list[int] = []
    writes = new_writes(lambda: ended.append(1))
    writes.start(JOB, end(ExecutionResult()))
    writes.memories[JOB].plan_missed = True
    await asyncio.sleep(2.0)
    assert (writes.plan_missed, writes.memories[JOB].plan_missed, ended) == (True, False, [1])


async def test_writes_have_some_time_to_end_when_the_process_stops() -> None:
    writes, loop = new_writes(), asyncio.get_running_loop()
    writes.start(JOB, end(ExecutionResult()))
    writes.start(JobId("red", "endless", "u2"), asyncio.Event().wait())  # type: ignore[arg-type]
    await writes.drain()
    assert (JOB in writes.queue, loop.time()) == (False, DRAIN_S)


async def test_a_write_that_is_cancelled_before_its_first_step_is_closed() -> None:
    writes, write = new_writes(), end(ExecutionResult())
    writes.start(JOB, write)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(1.0)
    assert inspect.getcoroutinestate(write) == inspect.CORO_CLOSED
