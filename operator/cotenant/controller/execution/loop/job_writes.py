"""Writes in progress, at most one for each job. When one ends, its job is looked at again.

If the API server does not answer, the write is tried again soon, by the replica that leads then. Any other failure is
contained to the job, also that a webhook does not answer, which may concern this job alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cotenant.controller.client.kube import FailedWebhookError, UnreachableError
from cotenant.controller.execution.containment.containment import Containment
from cotenant.controller.execution.loop.work_queue import WorkQueue
from cotenant.controller.execution.writes.executor import RETRY_S, ExecutionResult
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.quarantine import Stage
from cotenant.controller.leader.leadership import Leadership

log = logging.getLogger(__name__)

DRAIN_S = 5.0
"""How long the process waits for writes in progress when it stops."""

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
    """True if the last plan contained an action for a job while a write of that job was in progress."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, job: JobId, write: Write, undo: Callable[[], None] = lambda: None) -> None:
        """Start a write. If it fails because of a defect, `undo` takes back what was assumed of it."""
        self.queue.start(job)
        task = asyncio.create_task(self._finish(job, write, undo), name=f"write {job}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: write.close())  # a task cancelled before its first step has not begun it

    async def _finish(self, job: JobId, write: Write, undo: Callable[[], None]) -> None:
        result = ExecutionResult()
        try:
            result = await write
        except FailedWebhookError as error:
            undo()
            self.containment.contain(job, Stage.REFUSAL, error, self.clock())
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
        """Wait for the writes in progress. They are short, and the Lease is still held."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=DRAIN_S)
        for task in tasks:
            task.cancel()
