"""The scheduling loop, the operator's one writer: wait → sync → reconcile jobs → snapshot → schedule → assume → write.

`main` supervises it. A failure that one job causes is contained to that job; any other exception ends the process. Each
job has at most one write in progress. The loop never waits for it, and looks at the job again when it ends. A replica
that does not lead keeps its cache up to date and does nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from cotenant.controller.client.kube import UnreachableError
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.execution.containment.containment import Containment
from cotenant.controller.execution.containment.culprit_search import CulpritSearch
from cotenant.controller.execution.loop.job_writes import JobWrites
from cotenant.controller.execution.loop.observer import Observer
from cotenant.controller.execution.loop.plan_executor import PlanExecutor
from cotenant.controller.execution.loop.verdict_throttle import VerdictThrottle
from cotenant.controller.execution.loop.work_queue import WorkQueue
from cotenant.controller.execution.writes.action_executor import ActionExecutor
from cotenant.controller.execution.writes.executor import Executor
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.quarantine import Stage
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.lifecycle import observed_generation
from cotenant.controller.lifecycle.observation import ReconcileResult
from cotenant.controller.lifecycle.reconcile import reconcile, reconcile_orphans
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.plan import Action, Admit, Plan
from cotenant.core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)

FOLLOWER_POLL_S = 0.5
"""Longest pause of a replica that does not lead. Deadlines of jobs concern the leader only."""


@dataclass(slots=True, kw_only=True)
class SchedulingLoop:
    cache: ObjectCache
    cluster: ClusterView
    memories: JobMemories
    executor: Executor
    action_executor: ActionExecutor
    containment: Containment
    observer: Observer
    schedule: Callable[[Snapshot], Plan]
    metrics: Metrics
    settings: Settings
    leadership: Leadership
    resync: Callable[[], Coroutine[Any, Any, None]]
    """Lists the cluster anew. A new leader calls this before its first decision."""
    verdict_throttle: VerdictThrottle
    explained: Callable[[Plan, float], Plan]
    """Adds estimated starts to verdicts; never waits for an estimate."""
    on_plan: Callable[[Snapshot, Plan], None]
    """Receives every plan, for the statuses of Queues, budgets and metrics."""
    on_decision: Callable[[Snapshot, Plan, Sequence[Action], float], None] = lambda *_: None
    """Receives the snapshot, the plan, the actions carried out and the seconds of each decision, for the decision log.
    """
    on_taken_over: Callable[[], None] = lambda: None
    """Called each time that `has_taken_over` becomes true."""
    clock: Callable[[], float] = time.time
    wake_up: asyncio.Event = field(default_factory=asyncio.Event)
    last_alive: float = 0.0
    """Monotonic time of the last sign of life, for the liveness probe."""
    _queue: WorkQueue[JobId] = field(default_factory=WorkQueue)
    _writes: JobWrites = field(init=False)
    _plan_executor: PlanExecutor = field(init=False)
    _restored: bool = False
    _plan_due: bool = True
    """True if anything that decisions depend on has changed since the last plan."""
    _planned_at: float = 0.0

    def __post_init__(self) -> None:
        self._writes = JobWrites(
            queue=self._queue, memories=self.memories, containment=self.containment, leadership=self.leadership,
            clock=self.clock, on_end=self.wake_up.set,
        )  # fmt: skip
        self._plan_executor = PlanExecutor(
            cache=self.cache, cluster=self.cluster, memories=self.memories, executor=self.executor,
            action_executor=self.action_executor, writes=self._writes, verdict_throttle=self.verdict_throttle,
        )  # fmt: skip
        self.leadership.on_lost(self._lose_leadership)
        self.leadership.on_change(lambda held: self.wake_up.set())

    @property
    def has_taken_over(self) -> bool:
        """Whether this replica leads and has listed the cluster since it began to."""
        return self.leadership.held and self._restored

    async def run(self) -> None:
        while True:
            await self._wait()
            self.last_alive = time.monotonic()
            if not self.leadership.held:
                self._lose_leadership()
                continue
            if not self._restored and not await self._restore():
                continue
            await self.cycle()

    def _lose_leadership(self) -> None:
        """Stop acting as the leader. Changes until the next leadership are dropped, because everything is then read
        anew.
        """
        if self._restored:
            self.containment.forget()
        self._restored = False
        self.cache.pop_changes()

    async def _wait(self) -> None:
        """Wait for a change or a deadline, and then for the batching window."""
        due_at = self._queue.next_at() if self.leadership.held else self.clock() + FOLLOWER_POLL_S
        pause = self.settings.tick_s if due_at is None else min(self.settings.tick_s, due_at - self.clock())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, pause)):
                await self.wake_up.wait()
        if self.wake_up.is_set():
            await asyncio.sleep(self.settings.batch_window_s)
        self.wake_up.clear()

    async def _restore(self) -> bool:
        """Rebuild all state from the API. Only what earlier leaders wrote counts, not what they had in memory."""
        started = time.monotonic()
        try:
            await self.resync()
        except UnreachableError as error:
            log.warning("leads, but cannot list the cluster yet: %s", error)
            return False
        for memory in self.memories:  # what became of these commits is in the list, under whichever leader
            if memory.uncertain is not None:
                self.cluster.resolve_assumption(memory.id, memory.uncertain, None)
                memory.uncertain = None
        self.containment.restore(self.clock())
        self.cluster.restore(self.clock())
        self._restored = self._plan_due = True
        self.on_taken_over()
        log.info("took over: %d jobs, %d nodes, %.2f s", len(self.cache.jobs), len(self.cache.nodes.facts),
                 time.monotonic() - started)  # fmt: skip
        return True

    async def cycle(self) -> None:
        started, now = time.monotonic(), self.clock()
        # 1. The core catches up with what was observed, and with what became of the last plan.
        synced = self.cluster.sync(now)
        self._plan_due |= synced.decisions_may_change or self._writes.plan_missed
        self._writes.plan_missed = False
        for job, error in synced.failures.items():
            self.containment.contain(job, Stage.CONVERSION, error, now)
        # 2. Every job that changed, or whose time has come, takes its next step.
        for job in sorted(synced.jobs):
            self._queue.add(job)
        for job in self._queue.get(now):
            try:
                self._reconcile(job, now)
            except Exception as error:
                self._queue.done(job)
                self.containment.contain(job, Stage.RECONCILE, error, now)
        # 3. A new plan, if it may be another one than the last.
        if self._plan_due or now - self._planned_at >= self.settings.tick_s:
            self._plan_due, self._planned_at = False, now
            await self._plan(now)
            self.metrics.cycles.observe(time.monotonic() - started)

    def _reconcile(self, job: JobId, now: float) -> None:
        """Take the job's next step. The job stays marked as in progress until the step is written."""
        record = self.cache.job(job)
        # 1. A job that is gone, or is another one of the same name: its pods go too.
        if record is None:
            if (pause_until := self.containment.pause_until(job, now)) is not None:
                self._queue.done(job)
                self._queue.add_after(job, pause_until)
                return
            pods = self.cluster.granted_pods(job)
            of_orphans = reconcile_orphans(pods, now, self.settings)
            if of_orphans.acts:
                self._writes.start(job, self.executor.delete_orphans(job, of_orphans))
                return
            self._rest(job, of_orphans.requeue_at)
            if not pods:
                self.memories.drop(job)
            return
        # 2. A commit without an answer: nothing is decided before it is known what became of it.
        if (action := self.memories[job].uncertain) is not None:
            self._writes.start(job, self.executor.resolve_uncertain(record, action))
            return
        # 3. A job that the operator failed on: left alone for a while, which its conditions show.
        restraint = self.containment.restraint(record, now)
        if restraint.to_report is not None:
            self._writes.start(job, self.executor.report_quarantine(record, restraint.to_report))
            return
        # 4. What is to be done by what was observed.
        result = ReconcileResult()
        if not restraint.left_alone:
            result = observed_generation.told(record, reconcile(self.observer.observe(record, now), self.settings))
        if result.acts:
            self._writes.start(job, self.executor.apply(record, result))
            return
        self._rest(job, result.requeue_at, restraint.look_at)

    def _rest(self, job: JobId, *times: float | None) -> None:
        """Leave the job alone until the first of these times, unless pods of it may exist that were not seen yet."""
        if self.memories[job].unsettled:
            self._writes.start(job, self.executor.settle_pods(job))
            return
        self._queue.done(job)
        if due := [at for at in times if at is not None]:
            self._queue.add_after(job, min(due))

    async def _plan(self, now: float) -> None:
        # 1. Decide, in a thread: meanwhile nothing changes the state that the snapshot is of.
        started = time.monotonic()
        try:
            self.cluster.advance(now)
            snapshot = self.cluster.snapshot(now)
            plan = await asyncio.to_thread(self.schedule, snapshot)
        except Exception as error:
            await self._contain_culprits(error, now)
            return
        seconds = time.monotonic() - started
        self.metrics.decisions.observe(seconds)
        if not self.has_taken_over:
            return  # led no more, or for a moment not: another replica may have decided meanwhile
        # 2. Carry out what still can be.
        explained = self.explained(plan, now)
        actions = self._plan_executor.carry_out(explained, now)
        self.on_plan(snapshot, explained)
        self.on_decision(snapshot, plan, actions, seconds)
        if actions:
            admitted = sum(isinstance(action, Admit) for action in actions)
            log.info("cycle: %d jobs, %d admitted, %d asked to leave, %d wait, %.3f s", len(snapshot.jobs), admitted,
                     len(actions) - admitted, len(plan.verdicts), time.monotonic() - started)  # fmt: skip

    async def _contain_culprits(self, error: Exception, now: float) -> None:
        """Handle a decision that failed: the next one leaves out the jobs to blame. If no job is to blame, raise the
        error.
        """

        def decide(snapshot: Snapshot) -> None:
            self.last_alive = time.monotonic()
            self.schedule(snapshot)

        search = CulpritSearch(decide, self.cluster.jobs_alone(now))
        candidates = [job.key for job in search.snapshot.jobs if job.key in self.cache.jobs]
        culprits = await asyncio.to_thread(search.culprits, candidates)
        if not culprits:
            raise error
        for key, failure in culprits.items():
            if (record := self.cache.jobs.get(key)) is not None:
                self.containment.contain(record.id, Stage.SCHEDULING, failure, now)
        self._plan_due = True

    async def stop(self) -> None:
        """Wait for the writes in progress."""
        await self._writes.drain()
