"""Commits each action of a plan by one write of its job's status, and writes why other jobs wait.

The write is the commit. If it fails, the assumption of the action is taken back. If it gets no answer, the assumption
stays until the outcome is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import FailedWebhookError, FencedError, RefusedError, UnreachableError
from cotenant.controller.execution.writes.admission_message import admission_message
from cotenant.controller.execution.writes.executor import ExecutionResult, Executor, retry_at
from cotenant.controller.execution.writes.jobs_of_others import said_in
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle import plan_transitions, status_transitions
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.lifecycle.progress import final_progress
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent
from cotenant.core.model.plan import Action, Admit, Evict, Resize, Verdict

PLACE_HERE: Final = "there is a place for it here"
"""Why a job is fetched back from another cluster."""


@dataclass(slots=True, kw_only=True)
class ActionExecutor:
    executor: Executor
    """Its cache, its cluster and its clock count here too."""
    settings: Settings

    async def admit(self, record: JobRecord, action: Admit) -> ExecutionResult:
        """Commit the placement, then make the pods."""
        now = self.executor.clock()
        # 1. The status that hands the GPUs out.
        message = admission_message(record, action, self.executor.cache.nodes.gpu_nodes, self.settings)
        size = record.size_placed(action.placement)
        isolation = self.executor.cluster.nodes.verify_isolation(action.placement).levels
        status = plan_transitions.admitted(
            record.observed_status.model_copy(update=size), action.placement, isolation, message, now,
            backfilled_until=action.backfilled_until, servers=record.servers,
            priority=self.executor.cluster.core_jobs.priority_of_class(record),
        )  # fmt: skip
        # 2. The commit: one write, which fails if the document is not the one that was decided on.
        committed = await self._commit(record, action, status)
        if committed is None:
            return retry_at(self.executor.clock())
        self.executor.event_recorder.record(record, EventToRecord(reason="Admitted", message=message))
        if record.job is not None and (since := record.waits_since) is not None:
            self.executor.metrics.waited.labels(record.job.spec.queue).observe(max(0.0, now - since))
        # 3. The pods; if others of the job still run, the next look at the job says when.
        if any(pod.held and pod.is_of_gang for pod in self.executor.cache.pods_of(record.id).values()):
            return retry_at(self.executor.clock())
        return await self.executor.create_pods(committed)

    async def evict(self, record: JobRecord, action: Evict) -> ExecutionResult:
        """Commit the eviction, then end the pods."""
        kind, message = action.kind.value, self._said(record, action.message)
        favoured = None if action.in_favour_of is None else self._said(record, action.in_favour_of)
        try:
            known = final_progress(record.status.progress, (), state="stopping", now=self.executor.clock())
            status = status_transitions.evicting(
                record.status.model_copy(update={"progress": known}),
                LifecycleEvent.EVICTED,
                kind=kind,
                message=message,
                now=self.executor.clock(),
                in_favour_of=favoured,
            )
            return await self._commit_departure(record, action, status, EventToRecord(reason=kind, message=message))
        except UnreachableError:
            raise
        except Exception:
            await self.executor.end_pods(record)  # what others wait for does not depend on its being written down
            raise

    async def resize(self, record: JobRecord, action: Resize) -> ExecutionResult:
        """Commit the new placement of an elastic job. Its next attempt starts when the pods of this one are gone."""
        message = self._said(record, action.message)
        size = record.size_placed(action.placement)
        status = plan_transitions.resized(
            record.status.model_copy(update=size),
            action.placement,
            isolation=self.executor.cluster.nodes.verify_isolation(action.placement).levels,
            message=message,
            milli=self.executor.cluster.nodes.held_milli(record.placement) if record.placement else 0,
            gpu_class=self.executor.cluster.nodes.gpu_class_of(record.placement) if record.placement else "",
            now=self.executor.clock(),
            servers=record.servers,
        )
        event = EventToRecord(reason="Resized", message=message)
        return await self._commit_departure(record, action, status, event)

    async def call_back(self, record: JobRecord) -> ExecutionResult:
        """Ask for a job back that waits on another cluster. It stays in no line until it is gone there."""
        if record.status.cluster is not None:
            cluster = record.status.cluster.model_copy(update={"returning": PLACE_HERE})
            await self.executor.write(record, record.status.model_copy(update={"cluster": cluster}))
        return ExecutionResult()

    async def report_pending(self, record: JobRecord, verdict: Verdict) -> ExecutionResult:
        """Write why a job waits."""
        pending, reason = record.status.pending, verdict.reason
        status = plan_transitions.waiting(record.observed_status, verdict, self.executor.clock())
        if await self.executor.write(record, status) and (pending is None or pending.reason != reason.value):
            event = EventToRecord(reason=reason.value, message=verdict.message, warning=reason.needs_change)
            self.executor.event_recorder.record(record, event)
        return ExecutionResult()

    def _said(self, record: JobRecord, text: str) -> str:
        """The text as readers of the job may see it."""
        return said_in(record.namespace, text, self.executor.cache.namespaces)

    async def _commit_departure(
        self, record: JobRecord, action: Evict | Resize, status: TrainingJobStatus, event: EventToRecord
    ) -> ExecutionResult:
        if await self._commit(record, action, status) is None:
            return retry_at(self.executor.clock())
        self.executor.event_recorder.record(record, event)
        return await self.executor.end_pods(record)

    async def _commit(self, record: JobRecord, action: Action, status: TrainingJobStatus) -> JobRecord | None:
        """Write the status that commits an action. If the write fails, the assumption of the action is taken back."""
        try:
            written = await self.executor.write(record, status)
        except (FencedError, FailedWebhookError):
            self.executor.cluster.resolve_assumption(record.id, action, None)  # it was not sent, or not taken
            raise
        except UnreachableError:
            self.executor.memories[record.id].uncertain = action
            raise
        except RefusedError:
            self.executor.metrics.actions.labels(type(action).__name__, "false").inc()
            raise
        self.executor.metrics.actions.labels(type(action).__name__, str(written is not None).lower()).inc()
        self.executor.cluster.resolve_assumption(record.id, action, None if written is None else written.version)
        return written
