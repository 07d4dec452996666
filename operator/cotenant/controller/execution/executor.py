"""Carries out what was decided: one write of a job's status, then what follows from it. All of it is safe to repeat.

The status write is the commit point: guarded by resourceVersion, it fails when anything wrote in between; then nothing
else happens and the decision is forgotten. What follows (pods, deletions, Events) can be done again by any later leader
from the committed status alone. The client holds back the writes of a replica that does not lead (FencedError).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import (
    TRAINING_JOBS,
    FencedError,
    Kube,
    Outcome,
    RefusedError,
    UnreachableError,
    version_of,
)
from cotenant.controller.client.merge_patch import merge_patch
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.execution.admission_message import admission_message
from cotenant.controller.execution.event_recorder import EventRecorder
from cotenant.controller.execution.pod_creator import Creation, PodCreator
from cotenant.controller.execution.pod_deleter import PodDeleter
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.quarantine import Quarantine, with_condition
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import EventToRecord, ReconcileResult
from cotenant.controller.lifecycle.progress import final_progress
from cotenant.controller.telemetry.logs import shorten
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import HOLDING, LifecycleEvent
from cotenant.core.model.plan import Action, Admit, Evict, Resize, Verdict

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause before something that did not work is tried again."""

REFUSED_PAUSE_S = 30.0
"""Pause before a deletion is tried again that the API server does not allow: an admission policy stands against it."""


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """Time of the next look at the job, in Unix seconds; None: at once."""

    requeue_at: float | None = None


@dataclass(slots=True, kw_only=True)
class Executor:
    kube: Kube
    cache: ObjectCache
    cluster: ClusterView
    memories: JobMemories
    pod_creator: PodCreator
    pod_deleter: PodDeleter
    event_recorder: EventRecorder
    metrics: Metrics
    clock: Callable[[], float] = time.time
    """Unix seconds."""

    async def apply(self, record: JobRecord, result: ReconcileResult) -> ExecutionResult:
        """Write the status, then record the Event, then delete or make pods."""
        if result.status is not None:
            try:
                if await self._write(record, result.status) is None:
                    return self._retry()
            except RefusedError:
                await self.pod_deleter.carry_out(result)  # what has to end, ends without it
                raise
            if result.event is not None:
                self.event_recorder.record(record, result.event)
        if refused := await self._delete_pods(record.id, result, self.pod_deleter.carry_out(result)):
            return refused
        if result.create_pods:
            return await self._create_pods(record)
        if result.delete_job:
            reply = await self.kube.delete(TRAINING_JOBS, record.name, record.namespace, uid=record.uid)
            if reply.outcome is Outcome.REFUSED:
                raise RefusedError(f"it cannot be deleted ({reply.code}): {shorten(reply.message)}")
        return ExecutionResult(result.requeue_at)

    async def admit(self, record: JobRecord, action: Admit) -> ExecutionResult:
        """Commit the placement; only then make the pods."""
        now = self.clock()
        # 1. The status that hands the GPUs out.
        message = admission_message(record, action, self.cache.nodes.gpu_nodes, self.pod_creator.settings)
        size = record.size_placed(sum(len(node.ranks) for node in action.placement.nodes))
        isolation = self.cluster.nodes.verify_isolation(action.placement).levels
        status = status_transitions.admitted(
            record.observed_status.model_copy(update=size), action.placement, isolation, message, now,
            backfilled_until=action.backfilled_until, servers=record.servers,
        )  # fmt: skip
        # 2. The commit: one write, which fails if the document is not the one that was decided on.
        committed = await self._commit(record, action, status)
        if committed is None:
            return self._retry()
        self.event_recorder.record(record, EventToRecord(reason="Admitted", message=message))
        if record.job is not None and record.job.metadata.creation_timestamp is not None:
            waited_s = now - record.job.metadata.creation_timestamp.timestamp()
            self.metrics.waited.labels(record.job.spec.queue).observe(max(0.0, waited_s))
        # 3. The pods.
        return await self._create_pods(committed)

    async def evict(self, record: JobRecord, action: Evict) -> ExecutionResult:
        """Write the eviction down, then end the pods."""
        kind, message = action.kind.value, action.message
        try:
            known = final_progress(record.status.progress, (), state="stopping", now=self.clock())
            status = status_transitions.evicting(
                record.status.model_copy(update={"progress": known}),
                LifecycleEvent.EVICTED,
                kind=kind,
                message=message,
                now=self.clock(),
                in_favour_of=action.in_favour_of,
            )
            return await self._commit_departure(record, action, status, EventToRecord(reason=kind, message=message))
        except UnreachableError:
            raise
        except Exception:
            await self.end_pods(record)  # what others are waiting for does not depend on its being written down
            raise

    async def end_pods(self, record: JobRecord) -> ExecutionResult:
        """End what runs of the job, whatever its status says."""
        pods = self.cache.pods_of(record.id).values()
        await self.pod_deleter.delete([pod for pod in pods if pod.held and not pod.deleting])
        return ExecutionResult()

    async def report_quarantine(self, record: JobRecord, quarantine: Quarantine) -> ExecutionResult:
        """Show in the status that the job is left alone, or no longer; where that is refused, in an Event alone."""
        status = with_condition(record.status, quarantine, self.clock())
        with contextlib.suppress(RefusedError):
            await self._write(record, status)
        if quarantine.lifted:
            event = EventToRecord(reason="QuarantineLifted", message="the operator gets on with the job again")
        else:
            event = EventToRecord(reason="Quarantined", message=quarantine.message, warning=True)
        self.event_recorder.record(record, event)
        return ExecutionResult()

    async def resize(self, record: JobRecord, action: Resize) -> ExecutionResult:
        """Commit the new placement of an elastic job. Its next attempt starts when the pods of this one are gone."""
        size = record.size_placed(sum(len(node.ranks) for node in action.placement.nodes))
        status = status_transitions.resized(
            record.status.model_copy(update=size),
            action.placement,
            isolation=self.cluster.nodes.verify_isolation(action.placement).levels,
            message=action.message,
            milli=self.cluster.nodes.held_milli(record.placement) if record.placement else 0,
            now=self.clock(),
            servers=record.servers,
        )
        event = EventToRecord(reason="Resized", message=action.message)
        return await self._commit_departure(record, action, status, event)

    async def report_pending(self, record: JobRecord, verdict: Verdict) -> ExecutionResult:
        """Write why a job waits."""
        pending, reason = record.status.pending, verdict.reason
        status = status_transitions.waiting(record.observed_status, verdict, self.clock())
        if await self._write(record, status) and (pending is None or pending.reason != reason.value):
            event = EventToRecord(reason=reason.value, message=verdict.message, warning=reason.needs_change)
            self.event_recorder.record(record, event)
        return ExecutionResult()

    async def delete_orphans(self, job: JobId, result: ReconcileResult) -> ExecutionResult:
        """End the pods of a job that is gone."""
        refused = await self._delete_pods(job, result, self.pod_deleter.delete_orphans(job, result))
        return refused or ExecutionResult(result.requeue_at)

    async def settle_pods(self, job: JobId) -> ExecutionResult:
        """Find out which pods are there that nothing is made of any more."""
        await self.pod_creator.settle(job)
        return self._retry() if self.memories[job].unsettled else ExecutionResult()

    async def resolve_uncertain(self, record: JobRecord, action: Action) -> ExecutionResult:
        """Find out what became of an uncertain commit. What was written is in the cache then, which is synced before
        the next decision.
        """
        reply = await self.kube.get(TRAINING_JOBS, record.name, record.namespace)
        self.memories[record.id].uncertain = None
        if reply.done and version_of(reply.document) > record.version:
            self.cache.put(TRAINING_JOBS, reply.document)
        self.cluster.resolve_assumption(record.id, action, None)
        return ExecutionResult()

    async def _commit_departure(
        self, record: JobRecord, action: Evict | Resize, status: TrainingJobStatus, event: EventToRecord
    ) -> ExecutionResult:
        if await self._commit(record, action, status) is None:
            return self._retry()
        self.event_recorder.record(record, event)
        return await self.end_pods(record)

    async def _commit(self, record: JobRecord, action: Action, status: TrainingJobStatus) -> JobRecord | None:
        """The write that makes an action true. Where it is not made, the assumption of the action is forgotten."""
        try:
            written = await self._write(record, status)
        except FencedError:
            self.cluster.resolve_assumption(record.id, action, None)  # it was never sent
            raise
        except UnreachableError:
            self.memories[record.id].uncertain = action
            raise
        except RefusedError:
            self.metrics.actions.labels(type(action).__name__, "false").inc()
            raise
        self.metrics.actions.labels(type(action).__name__, str(written is not None).lower()).inc()
        self.cluster.resolve_assumption(record.id, action, None if written is None else written.version)
        return written

    async def _write(self, record: JobRecord, status: TrainingJobStatus) -> JobRecord | None:
        """The record as it is after the write; None where another was first, or the job is gone.

        Raises `RefusedError` for a status that the API server does not take.
        """
        change = merge_patch(record.raw_status, status)
        if not change:
            return record
        if record.phase in HOLDING and status.phase not in HOLDING:
            # Before it is written: whoever leads after a crash in between comes here again.
            await self.pod_creator.delete_token(record)
        body = {"metadata": {"resourceVersion": str(record.version), "uid": record.uid}, "status": change}
        reply = await self.kube.patch(
            TRAINING_JOBS, record.name, body, namespace=record.namespace, subresource="status"
        )
        if reply.done:
            self.cache.put(TRAINING_JOBS, reply.document)
            if "phase" in change:
                self.metrics.transitions.labels(str(status.phase)).inc()
                log.info("%s: %s (%s)", record.key, status.phase, status.reason)
            return self.cache.job(record.id) or record
        if reply.outcome is Outcome.REFUSED:
            raise RefusedError(f"its status was refused ({reply.code}): {shorten(reply.message)}")
        # Another write was first, or the job is gone: the next decision is made from what there is now.
        fresh = await self.kube.get(TRAINING_JOBS, record.name, record.namespace)
        if fresh.done:
            self.cache.put(TRAINING_JOBS, fresh.document)
        elif fresh.outcome is Outcome.MISSING:
            self.cache.remove(TRAINING_JOBS, record.namespace, record.name, record.uid)
        return None

    async def _delete_pods(
        self, job: JobId, result: ReconcileResult, deletions: Awaitable[str]
    ) -> ExecutionResult | None:
        """Delete, and record what was asked for again; the pause after a refusal, None where there was none."""
        if refusal := await deletions:
            self.event_recorder.record(job, EventToRecord(reason="DeletionRefused", message=refusal, warning=True))
            return ExecutionResult(self.clock() + REFUSED_PAUSE_S)
        for again in result.forced_deletions:
            self.event_recorder.record(job, again.event)
        return None

    def _retry(self) -> ExecutionResult:
        return ExecutionResult(self.clock() + RETRY_S)

    async def _create_pods(self, record: JobRecord) -> ExecutionResult:
        """A placement that cannot be carried out is left to the next reconcile, which gives it up."""
        if self.cache.job(record.id) is None or self.cluster.placements.error(record, self.clock()) is not None:
            return ExecutionResult()
        created = await self.pod_creator.create(record)
        return self._retry() if created is Creation.RETRY else ExecutionResult()
