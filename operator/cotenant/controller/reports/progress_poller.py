"""Polls rank 0 of every running job for its progress, at a bounded rate, and keeps the latest answer until it is
written.

The operator and the launcher have plain HTTP between them and nothing else. A pod that does not answer is no fault: the
last answer stays. With many jobs each one is polled less often, so that the writes that follow stay few.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Set

import aiohttp

from cotenant import contract, names
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories, ProgressSample
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.lifecycle.progress import summary
from cotenant.controller.reports.slow_gpus import SlowGpus
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import Phase

AT_ONCE = 32
POLLS_PER_S = 40.0
TIMEOUT = aiohttp.ClientTimeout(total=2.0, sock_connect=1.0)


class ProgressPoller:
    def __init__(
        self, cache: ObjectCache, memories: JobMemories, metrics: Metrics, slow_gpus: SlowGpus, *, every_s: float
    ) -> None:
        self._cache = cache
        self._memories = memories
        self._metrics = metrics
        self._slow_gpus = slow_gpus
        self._every_s = every_s

    async def run(self) -> None:
        """Poll round after round, with a pause that keeps the rate."""
        async with aiohttp.ClientSession(timeout=TIMEOUT, connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:
            while True:
                started = time.monotonic()
                polled = await self.poll_running(session)
                pause = max(self._every_s, polled / POLLS_PER_S)
                await asyncio.sleep(max(0.1, pause - (time.monotonic() - started)))

    async def poll_running(self, session: aiohttp.ClientSession) -> int:
        """Poll every running job once, and forget the others; returns how many run."""
        running = [one for one in self._cache.jobs.values() if one.phase is Phase.RUNNING]
        self._forget_all_but({one.id for one in running})
        limit = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._poll(session, limit, record) for record in running))
        return len(running)

    def _forget_all_but(self, running: Set[JobId]) -> None:
        for memory in self._memories:
            if memory.id not in running:
                memory.progress = None
                memory.reported_slow_gpus.clear()

    async def _poll(self, session: aiohttp.ClientSession, limit: asyncio.Semaphore, record: JobRecord) -> None:
        head = f"{record.name}-{record.status.attempts}-0"
        pod = self._cache.pods_of(record.id).get(head)
        if pod is None or not pod.ip or not pod.held:
            return
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        try:
            async with limit, session.get(f"http://{host}:{names.PROGRESS_PORT}/progress") as response:
                response.raise_for_status()
                answer = contract.Progress.from_json(await response.text())
        except (aiohttp.ClientError, TimeoutError, OSError, json.JSONDecodeError, TypeError, AttributeError):
            self._metrics.polls.labels("failed").inc()
            return
        self._metrics.polls.labels("ok").inc()
        self._keep(record, answer)
        await self._slow_gpus.report(record, answer)

    def _keep(self, record: JobRecord, answer: contract.Progress) -> None:
        memory, attempt = self._memories[record.id], record.status.attempts
        known = memory.progress_of(attempt)
        if known is not None and summary(known.progress) == summary(answer):
            return
        same = known is not None and (known.progress.step, known.progress.state) == (answer.step, answer.state)
        changed_at = known.step_changed_at if known is not None and same else time.time()
        memory.progress = ProgressSample(attempt, answer, changed_at)
        self._cache.mark_changed([record.id])
