"""Carries out those actions of a plan that are still possible. They are assumed first; evictions start before
admissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.execution.loop.job_writes import JobWrites
from cotenant.controller.execution.loop.verdict_throttle import VerdictThrottle
from cotenant.controller.execution.writes.action_executor import ActionExecutor
from cotenant.controller.execution.writes.executor import Executor
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.lifecycle import HOLDING, Phase
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Action, Admit, Evict, Plan, Verdict


@dataclass(slots=True, kw_only=True)
class PlanExecutor:
    cache: ObjectCache
    cluster: ClusterView
    memories: JobMemories
    executor: Executor
    action_executor: ActionExecutor
    writes: JobWrites
    verdict_throttle: VerdictThrottle

    def carry_out(self, plan: Plan, now: float) -> tuple[Action, ...]:
        """Start the actions that are still possible, and return them."""
        # 1. Keep what can still be done; what was missed is planned again when the write under way has ended.
        acts_on = {action.job for action in plan.actions}
        for job in self.writes.queue.processing:
            if (job.key in acts_on or job.key in plan.verdicts) and self.cache.job(job) is not None:
                self.memories[job].plan_missed = True
        for action in plan.actions:
            self._end_if_quarantined(action, now)
            self._call_back(action, now)
        actions = tuple(action for action in plan.actions if self._can_carry_out(action, now))
        # 2. Assume: the next snapshot has it.
        self.cluster.assume(replace(plan, actions=actions), now)
        # 3. Carry out, evictions first.
        for action in sorted(actions, key=lambda one: isinstance(one, Admit)):
            self._start(self.cache.jobs[action.job], action)
        self._write_verdicts(plan.verdicts, now)
        return actions

    def _start(self, record: JobRecord, action: Action) -> None:
        if isinstance(action, Admit):
            write = self.action_executor.admit(record, action)
        elif isinstance(action, Evict):
            write = self.action_executor.evict(record, action)
        else:
            write = self.action_executor.resize(record, action)
        self.writes.start(record.id, write, partial(self.cluster.resolve_assumption, record.id, action, None))

    def _end_if_quarantined(self, action: Action, now: float) -> None:
        """End the pods of a quarantined job that has to leave. Other jobs do not wait until its status is written."""
        record = self.cache.jobs.get(action.job)
        if not isinstance(action, Evict) or record is None or record.id in self.writes.queue:
            return
        stays = any(pod.held and not pod.deleting for pod in self.cache.pods_of(record.id).values())
        if stays and self.memories[record.id].is_quarantined(record.generation, now):
            self.writes.start(record.id, self.executor.end_pods(record))

    def _call_back(self, action: Action, now: float) -> None:
        """Fetch a job back that is in line on another cluster too, if the plan has a place for it here. It is admitted
        by a later plan, once it is gone there.
        """
        record = self._beneficiary(action)
        if record is not None and record.waits_away and self._is_idle(record.key, now):
            self.writes.start(record.id, self.action_executor.call_back(record))

    def _beneficiary(self, action: Action) -> JobRecord | None:
        """The job that gets a place by the action."""
        key = action.in_favour_of if isinstance(action, Evict) else action.job
        return None if key is None else self.cache.jobs.get(key)

    def _write_verdicts(self, verdicts: Mapping[JobKey, Verdict], now: float) -> None:
        def is_idle(key: JobKey) -> bool:
            return self._is_idle(key, now)

        to_write = self.verdict_throttle.verdicts_to_write(verdicts, self.cache.jobs, now, is_idle)
        self.verdict_throttle.note_written(verdicts, to_write, now)
        for record, verdict in to_write:
            self.writes.start(record.id, self.action_executor.report_pending(record, verdict))

    def _is_idle(self, key: JobKey, now: float) -> bool:
        """True if the job exists, is not in quarantine, and no write of it is in progress."""
        record = self.cache.jobs.get(key)
        if record is None or record.id in self.writes.queue:
            return False
        memory = self.memories[record.id]
        return memory.uncertain is None and not memory.is_quarantined(record.generation, now)

    def _can_carry_out(self, action: Action, now: float) -> bool:
        """True if the job is still in the phase that the plan was made for."""
        if not self._is_idle(action.job, now):
            return False
        record, beneficiary = self.cache.jobs[action.job], self._beneficiary(action)
        if beneficiary is not None and beneficiary.is_away:
            return False
        if isinstance(action, Admit):
            return record.phase is Phase.PENDING
        return record.phase in HOLDING and record.placement is not None
