"""Asks rank 0 of every running job how far it is, at a bounded rate, and keeps the latest answer until it is written.

The operator speaks plain HTTP to the launcher and nothing else. A pod that does not answer is no fault: the last answer
stays. With many jobs each one is asked less often, so that the writes that follow stay few.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass

import aiohttp

from cotenant import contract, names
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.progress import summary
from cotenant.controller.reports.slow_gpus import SlowGpus
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import JobKey

AT_ONCE = 32
POLLS_PER_S = 40.0
TIMEOUT = aiohttp.ClientTimeout(total=2.0, sock_connect=1.0)


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """What rank 0 of one attempt said last, and since when it has said the same step."""

    attempt: int
    progress: contract.Progress
    step_changed_at: float


class ProgressPoller:
    def __init__(self, cache: ObjectCache, metrics: Metrics, slow_gpus: SlowGpus, *, every_s: float) -> None:
        self._cache = cache
        self._metrics = metrics
        self._slow_gpus = slow_gpus
        self._every_s = every_s
        self._samples: dict[JobKey, ProgressSample] = {}

    def latest(self, record: JobRecord) -> ProgressSample | None:
        heard = self._samples.get(record.key)
        return heard if heard and heard.attempt == record.status.attempts else None

    async def run(self) -> None:
        """Round after round; one round asks every running job once."""
        async with aiohttp.ClientSession(timeout=TIMEOUT, connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:
            while True:
                running = [one for one in self._cache.jobs.values() if one.status.phase is Phase.RUNNING]
                for key in set(self._samples) - {one.key for one in running}:
                    del self._samples[key]
                self._slow_gpus.forget_all_but({one.key for one in running})
                pause = max(self._every_s, len(running) / POLLS_PER_S)
                started = time.monotonic()
                limit = asyncio.Semaphore(AT_ONCE)
                await asyncio.gather(*(self._poll(session, limit, record) for record in running))
                await asyncio.sleep(max(0.1, pause - (time.monotonic() - started)))

    async def _poll(self, session: aiohttp.ClientSession, limit: asyncio.Semaphore, record: JobRecord) -> None:
        head = f"{record.name}-{record.status.attempts}-0"
        pod = self._cache.pods_of(record.uid).get(head)
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
        known = self.latest(record)
        if known is not None and summary(known.progress) == summary(answer):
            return
        moved = known is None or known.progress.step != answer.step or known.progress.state != answer.state
        moved_at = time.time() if moved or known is None else known.step_changed_at
        self._samples[record.key] = ProgressSample(record.status.attempts, answer, moved_at)
        self._cache.requeue(record.key)
