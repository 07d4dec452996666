"""Writes under way, at most one for each job; when one ends, its job is looked at again.

An API server that does not answer is asked again soon, by whichever replica leads then; anything
else that goes wrong is contained to the job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cotenant.controller.client.kube import UnreachableError
from cotenant.controller.execution.containment.containment import Containment
from cotenant.controller.execution.loop.work_queue import WorkQueue
from cotenant.controller.execution.writes.executor import RETRY_S, ExecutionResult
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.quarantine import Stage
from cotenant.controller.leader.leadership import Leadership

log = logging.getLogger(__name__)

DRAIN_S = 5.0
"""Grace period of the writes that are under way when the process stops."""

Write: TypeAlias = Coroutine[Any, Any, ExecutionResult]


@dataclass(slots=True, kw_only=True)
class JobWrites:
    queue: WorkQueue[JobId]
    memories: JobMemories
    containment: Containment
    leadership: Leadership
    clock: Callable[[], float]
    on_end: Callable[[], None]
    plan_missed: bool = False
    """The last plan had something for a job of which a write was under way, and has ended since."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, job: JobId, write: Write, undo: Callable[[], None] = lambda: None) -> None:
        """Begin a write; `undo` is called if it fails by a defect, for what was assumed of it."""
        self.queue.start(job)
        task = asyncio.create_task(self._finish(job, write, undo), name=f"write {job}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: write.close())  # a task cancelled before its first step has not begun it

    async def _finish(self, job: JobId, write: Write, undo: Callable[[], None]) -> None:
        result = ExecutionResult()
        try:
            result = await write
        except UnreachableError as error:
            if self.leadership.held:  # else it is another replica's to do now
                log.warning("%s: %s; tried again soon", job, error)
            result = ExecutionResult(self.clock() + RETRY_S)
        except Exception as error:
            undo()
            self.containment.contain(job, Stage.EXECUTION, error, self.clock())
        finally:
            self.queue.done(job)
        memory = self.memories[job]
        self.plan_missed |= memory.plan_missed
        memory.plan_missed = False
        if result.requeue_at is None:
            self.queue.add(job)
        else:
            self.queue.add_after(job, result.requeue_at)
        self.on_end()

    async def drain(self) -> None:
        """Let the writes that are under way end; they are short, and the Lease is still held."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=DRAIN_S)
        for task in tasks:
            task.cancel()
