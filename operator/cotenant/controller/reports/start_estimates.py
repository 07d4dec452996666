"""Publishes when waiting jobs start, from futures that are played between cycles, and measures how true that was.

Plays take `SLICE_S` of CPU at a time in a thread, with pauses, and at most `BUDGET_S` for each plan. A cycle never
waits for them; an unfinished play continues after the next plan. Decisions never read an estimate.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import ExplainedStart, JobMemories, JobMemory
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Admit, Plan, Verdict
from cotenant.core.outlook.ahead import ahead_of
from cotenant.core.outlook.estimates import Estimate, Outlook
from cotenant.core.policy import Policy
from cotenant.core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)

SLICE_S: Final = 0.02
BUDGET_S: Final = 0.2
PAUSE_S: Final = 0.05
STAGE: Final = "EstimatesFailed"
"""Name of the stage in the metric of contained failures."""


class StartEstimates:
    def __init__(
        self, cache: ObjectCache, memories: JobMemories, metrics: Metrics, policy: Policy, leadership: Leadership
    ) -> None:
        self._cache, self._memories, self._metrics, self._policy = cache, memories, metrics, policy
        self._outlook = Outlook(policy)
        self._snapshot: Snapshot | None = None
        """The newest snapshot that the plays have not used yet."""
        self._estimates: Mapping[JobKey, Estimate] = {}
        self._ahead: Mapping[JobKey, str] = {}
        """Job → a sentence about the jobs before it."""
        self._learned: list[tuple[str, Estimate, float]] = []
        self._planned = asyncio.Event()
        leadership.on_lost(self.forget)

    def explained(self, plan: Plan, now: float) -> Plan:
        """The plan, with what is known so far about the starts of waiting jobs."""
        verdicts = dict(plan.verdicts)
        for key, verdict in plan.verdicts.items():
            estimate, memory = self._estimates.get(key), self._memory(key)
            if estimate is None or memory is None:
                continue
            verdicts[key] = self._explain(memory, verdict, estimate, now)
        return replace(plan, verdicts=verdicts)

    def _explain(self, memory: JobMemory, verdict: Verdict, estimate: Estimate, now: float) -> Verdict:
        """The verdict with its estimate. If nothing changed, it is the same object as before: thousands wait, few
        change.
        """
        ahead, before = self._ahead.get(verdict.job, ""), memory.explained
        if (
            before is not None
            and before.verdict is verdict
            and (before.estimate, before.ahead) == (estimate, ahead)
            and now <= estimate.p50
        ):
            return before.result
        p50, p90 = max(now, estimate.p50), max(now, estimate.p90)
        explained = replace(
            verdict,
            estimated_start_at=p50,
            latest_start_at=p90 if p90 < now + _NEVER_S else None,
            position=estimate.position,
            ahead=ahead,
        )
        memory.explained = ExplainedStart(verdict, estimate, ahead, explained)
        return explained

    def on_plan(self, snapshot: Snapshot, plan: Plan) -> None:
        """Take the newest state of the cluster, and measure the estimates of the jobs that start."""
        jobs = {job.key: job for job in snapshot.jobs}
        known = {queue.name for queue in snapshot.queues}
        for action in plan.actions:
            job, memory = jobs.get(action.job), self._memory(action.job)
            if memory is None:
                continue
            estimate, memory.first_estimate, memory.explained = memory.first_estimate, None, None
            if isinstance(action, Admit) and estimate is not None and job is not None and job.queue in known:
                self._measure(job.queue, estimate, snapshot.now)
                self._learned.append((job.queue, estimate, snapshot.now))
        for memory in self._memories:
            if memory.first_estimate is not None and memory.id.key not in jobs:
                memory.first_estimate = None
        for key in plan.verdicts:
            estimate, memory = self._estimates.get(key), self._memory(key)
            if memory is not None and memory.first_estimate is None:
                memory.first_estimate = estimate
        self._snapshot = snapshot
        self._planned.set()

    def forget(self) -> None:
        """Another replica leads, so the estimates of this one are dropped."""
        self._estimates, self._ahead, self._snapshot = {}, {}, None
        for memory in self._memories:
            memory.first_estimate = memory.explained = None
        self._outlook = Outlook(self._policy)

    def _memory(self, key: JobKey) -> JobMemory | None:
        record = self._cache.jobs.get(key)
        return None if record is None else self._memories[record.id]

    async def run(self) -> None:
        while True:
            await self._planned.wait()
            self._planned.clear()
            try:
                await self._play()
            except Exception:
                self._metrics.failures_contained.labels(STAGE).inc()
                log.exception("the starts of waiting jobs were not estimated")
                self.forget()
            await asyncio.sleep(PAUSE_S)

    async def _play(self) -> None:
        outlook, snapshot = self._outlook, self._snapshot
        if snapshot is None:
            return
        self._snapshot = None
        await asyncio.to_thread(outlook.observe, snapshot, self._ends(snapshot))
        for queue, estimate, started_at in self._learned:
            outlook.learn(queue, estimate, started_at)
        self._learned.clear()
        spent, going_on = 0.0, True
        while going_on and spent < BUDGET_S:
            used, going_on = await asyncio.to_thread(_advance, outlook)
            spent += used
            await asyncio.sleep(PAUSE_S)
        estimates = await asyncio.to_thread(outlook.estimates)
        ahead = await asyncio.to_thread(ahead_of, snapshot, estimates, self._policy)
        if outlook is self._outlook:
            self._estimates, self._ahead = estimates, ahead

    def _ends(self, snapshot: Snapshot) -> dict[JobKey, float]:
        """Running job → its end by its own progress: steps left, at the present rate."""
        found: dict[JobKey, float] = {}
        for job in snapshot.jobs:
            record = self._cache.jobs.get(job.key)
            if job.placement is None or record is None or record.phase is not Phase.RUNNING:
                continue
            progress = record.status.progress
            at = unix_seconds(progress.updated_at) if progress else None
            if progress is not None and at is not None and progress.remaining_seconds is not None:
                found[job.key] = at + progress.remaining_seconds
        return found

    def _measure(self, queue: str, estimate: Estimate, started_at: float) -> None:
        wait = max(1.0, started_at - estimate.made_at)
        self._metrics.estimate_error.labels(queue).observe(abs(started_at - estimate.p50) / wait)
        came = "late" if started_at > estimate.p90 else "by p90" if started_at > estimate.p50 else "early"
        self._metrics.estimates.labels(queue, came).inc()


_NEVER_S: Final = 10 * 365 * 86_400


def _advance(outlook: Outlook) -> tuple[float, bool]:
    """Returns the CPU seconds that were used, and whether there is more to play."""
    began = time.thread_time()
    while (going_on := outlook.step()) and time.thread_time() - began < SLICE_S:
        pass
    return time.thread_time() - began, going_on
