"""The scheduling loop, the operator's one writer: wait → batch → flush → steps → snapshot → schedule → assume → apply.

It runs under supervision (`main`): an exception that is not an unreachable API server ends the process. Each job has at
most one write in flight; the loop never waits for it, and looks at the job again when it is done. Replicas that do not
lead keep their mirror warm and do nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from cotenant.controller.client.kube import UnreachableError
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.execution.executor import RETRY_S, ExecutionResult, Executor
from cotenant.controller.execution.observer import Observer
from cotenant.controller.execution.verdict_throttle import VerdictThrottle
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import HOLDING, Phase
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Action, Admit, Evict, Plan
from cotenant.core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)

Schedule = Callable[[Snapshot], Plan]
FOLLOWER_POLL_S = 0.5
"""Longest pause of a replica that does not lead: what is due is due for the leader."""


@dataclass(slots=True, kw_only=True)
class SchedulingLoop:
    cluster: ClusterView
    executor: Executor
    observer: Observer
    schedule: Schedule
    metrics: Metrics
    settings: Settings
    is_leader: Callable[[], bool]
    resync: Callable[[], Coroutine[Any, Any, None]]
    """Lists everything anew: what a new leader does before its first decision."""
    verdict_throttle: VerdictThrottle
    on_plan: Callable[[Snapshot, Plan], None]
    """Told of every plan: for the statuses of Queues, budgets and metrics."""
    wake_up: asyncio.Event = field(default_factory=asyncio.Event)
    last_alive: float = 0.0
    """Monotonic time of the last sign of life; liveness looks at it."""
    _due: dict[JobKey, float] = field(default_factory=dict)
    _busy: dict[JobKey, asyncio.Task[None]] = field(default_factory=dict)
    _passed_over: set[JobKey] = field(default_factory=set)
    """Jobs that a plan spoke of while something else was being written about them: planned again after that."""
    _crash: BaseException | None = None
    _restored: bool = False
    _planned_at: float = 0.0

    async def run(self) -> None:
        while True:
            await self._wait()
            self.last_alive = time.monotonic()
            if self._crash is not None:
                raise self._crash
            if not self.is_leader():
                self._restored = False
                continue
            if not self._restored and not await self._restore():
                continue
            await self.cycle()

    async def _wait(self) -> None:
        """Until there is news, or something is due; then a moment more, for what comes with it."""
        now = time.time()
        due_in = [at - now for at in self._due.values()]
        pause = min([self.settings.tick_s, *due_in]) if self.is_leader() else min(self.settings.tick_s, FOLLOWER_POLL_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, pause)):
                await self.wake_up.wait()
        if self.wake_up.is_set():
            await asyncio.sleep(self.settings.batch_window_s)
        self.wake_up.clear()

    async def _restore(self) -> bool:
        """Rebuild from the API alone: nothing that an earlier leader had in memory counts, only what it wrote."""
        started = time.monotonic()
        try:
            await self.resync()
        except UnreachableError as error:
            log.warning("leads, but cannot list the cluster yet: %s", error)
            return False
        self.cluster.restore(time.time())
        self._restored = True
        log.info("took over: %d jobs, %d nodes, %.2f s", len(self.cluster.cache.jobs), len(self.cluster.cache.nodes),
                 time.monotonic() - started)  # fmt: skip
        return True

    async def cycle(self) -> None:
        started, now = time.monotonic(), time.time()
        changed = self.cluster.sync(now)
        due = {key for key, at in self._due.items() if at <= now}
        for key in sorted(changed.jobs | due):
            self._reconcile(key, now)
        for uid in sorted(changed.uids):
            self._delete_orphans(uid)
        if self.cluster.told.stale or now - self._planned_at >= self.settings.tick_s:
            self.cluster.told.stale = False
            self._planned_at = now
            await self._plan(now)
            self.metrics.cycles.observe(time.monotonic() - started)

    def _reconcile(self, key: JobKey, now: float) -> None:
        self._due.pop(key, None)
        if "#" in key:  # pods without a job, by the uid of the job that they had
            self._delete_orphans(key.split("#", 1)[1])
            return
        record = self.cluster.cache.jobs.get(key)
        if record is None:
            self.executor.pod_creator.forget(key)
            return
        if key in self._busy:
            return  # looked at again when its write is done
        if (action := self.executor.uncertain.get(key)) is not None:
            self._start_write(key, self.executor.resolve_uncertain(record, action))
            return
        step = self.observer.reconcile(record, now)
        if step.status is not None or step.delete_pods or step.create_pods or step.delete_job:
            self._start_write(key, self.executor.apply(record, step))
        elif step.requeue_at is not None:
            self._due[key] = step.requeue_at

    def _delete_orphans(self, uid: str) -> None:
        """Pods whose job is not there, or is another one of the same name."""
        for pod in self.cluster.cache.pods_of(uid).values():
            key = f"{pod.namespace}/{pod.worker.job}" if pod.worker else ""
            record = self.cluster.cache.jobs.get(key)
            if (record is None or record.uid != uid) and not pod.deleting and f"{key}#{uid}" not in self._busy:
                self._start_write(f"{key}#{uid}", self.executor.delete_orphans(key, uid))

    async def _plan(self, now: float) -> None:
        self.cluster.state.advance(now)
        snapshot = self.cluster.snapshot(now)
        started = time.monotonic()
        plan = await asyncio.to_thread(self.schedule, snapshot)
        self.metrics.decisions.observe(time.monotonic() - started)
        if not self.is_leader():
            return
        actions = tuple(action for action in plan.actions if self._is_idle(action.job) and self._is_current(action))
        self._passed_over |= {action.job for action in plan.actions if action.job in self._busy}
        self._passed_over |= set(plan.verdicts) & set(self._busy)
        self.cluster.state.assume(replace(plan, actions=actions), now)
        admitted = 0
        for action in sorted(actions, key=lambda one: isinstance(one, Admit)):  # evictions first
            record = self.cluster.cache.jobs[action.job]
            if isinstance(action, Admit):
                admitted += 1
                self._start_write(action.job, self.executor.admit(record, action))
            elif isinstance(action, Evict):
                self._start_write(action.job, self.executor.evict(record, action))
            else:
                self._start_write(action.job, self.executor.resize(record, action))
        free = {key: verdict for key, verdict in plan.verdicts.items() if self._is_idle(key)}
        for record, verdict in self.verdict_throttle.verdicts_to_write(free, self.cluster.cache.jobs, now):
            self._start_write(record.key, self.executor.report_pending(record, verdict))
        self.on_plan(snapshot, plan)
        if actions:
            log.info("cycle: %d jobs, %d admitted, %d asked to leave, %d wait, %.3f s", len(snapshot.jobs), admitted,
                     len(actions) - admitted, len(plan.verdicts), time.monotonic() - started)  # fmt: skip

    def _is_idle(self, key: JobKey) -> bool:
        """Nothing is being written about the job, and it is still what the plan thought it was."""
        return key in self.cluster.cache.jobs and key not in self._busy and key not in self.executor.uncertain

    def _is_current(self, action: Action) -> bool:
        """The job has not come into another phase while the plan was made, by somebody else's write."""
        status = self.cluster.cache.jobs[action.job].status
        if isinstance(action, Admit):
            return status.phase in {None, Phase.PENDING}
        return status.phase in HOLDING and status.placement is not None

    def _start_write(self, key: JobKey, call: Coroutine[Any, Any, ExecutionResult]) -> None:
        async def body() -> None:
            again_at: float | None = None
            try:
                again_at = (await call).requeue_at
            except UnreachableError as error:
                if self.is_leader():  # else it is another replica's to do now
                    log.warning("%s: %s; tried again soon", key, error)
                again_at = time.time() + RETRY_S
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                log.exception("%s: the operator is at fault", key)
                self._crash = error
                self.wake_up.set()
            finally:
                del self._busy[key]
                if key in self._passed_over:
                    self._passed_over.discard(key)
                    self.cluster.told.stale = True
            if again_at is not None:
                self._due[key] = again_at
            self.cluster.cache.requeue(key)

        self._busy[key] = asyncio.create_task(body(), name=f"write {key}")

    async def stop(self) -> None:
        """Let the writes that are under way end; they are short, and the Lease is still held."""
        if self._busy:
            await asyncio.wait(list(self._busy.values()), timeout=5.0)
        for task in self._busy.values():
            task.cancel()
