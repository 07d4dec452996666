"""Carries out the next step of a job: one write of its status, then pods, deletions and Events. All may be repeated.

The status write is the commit point. It is guarded by resourceVersion: if anything else wrote in between, it fails,
nothing else happens, and the decision is dropped. All later steps can be repeated by any leader from the committed
status. The client refuses writes of a replica that does not lead (FencedError).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cotenant import names
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import (
    SECRETS,
    TRAINING_JOBS,
    FailedWebhookError,
    Kube,
    Outcome,
    RefusedError,
    version_of,
)
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.execution.writes.event_recorder import EventRecorder
from cotenant.controller.execution.writes.pods.pod_creator import Creation, PodCreator
from cotenant.controller.execution.writes.pods.pod_deleter import PodDeleter
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.quarantine import Quarantine, with_condition
from cotenant.controller.lifecycle.observation import EventToRecord, ReconcileResult
from cotenant.controller.manifests.attempt import token_secret_name
from cotenant.controller.telemetry.logs import shorten
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import HOLDING
from cotenant.core.model.plan import Action

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause before a failed step is tried again."""

REFUSED_PAUSE_S = 30.0
"""Pause after the API server refused a deletion, for instance because of an admission policy."""


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """When the job is looked at next, in Unix seconds; None means at once."""

    requeue_at: float | None = None


def retry_at(now: float) -> ExecutionResult:
    """Look again soon: another write came first, or an obstacle will pass."""
    return ExecutionResult(now + RETRY_S)


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
        """Write the status, then record the Events, then delete or make pods."""
        if result.status is not None:
            try:
                if (written := await self.write(record, result.status)) is None:
                    return retry_at(self.clock())
                if result.clear_suspend_reason:
                    await self._clear_suspend_reason(written)
            except RefusedError:
                await self.pod_deleter.carry_out(result)  # what has to end, ends without it
                raise
        for event in (result.event, *result.more_events):
            if event is not None:
                self.event_recorder.record(record, event)
        if refused := await self._delete_pods(record.id, result, self.pod_deleter.carry_out(result)):
            return refused
        if result.create_pods:
            return await self.create_pods(record)
        if result.create_evaluator:
            await self.pod_creator.create_evaluator(record)
        if result.delete_job:
            reply = await self.kube.delete(TRAINING_JOBS, record.name, record.namespace, uid=record.uid)
            if reply.outcome is Outcome.REFUSED:
                raise RefusedError(f"it cannot be deleted ({reply.code}): {shorten(reply.message)}")
        return ExecutionResult(result.requeue_at)

    async def end_pods(self, record: JobRecord) -> ExecutionResult:
        """End the running pods of the job, whatever its status says."""
        pods = self.cache.pods_of(record.id).values()
        await self.pod_deleter.delete([pod for pod in pods if pod.held and not pod.deleting])
        return ExecutionResult()

    async def report_quarantine(self, record: JobRecord, quarantine: Quarantine) -> ExecutionResult:
        """Write the condition for a quarantine that begins or ends. If the write is refused, record only an Event."""
        status = with_condition(record.status, quarantine, self.clock())
        with contextlib.suppress(RefusedError, FailedWebhookError):
            await self.write(record, status)
        if quarantine.lifted:
            event = EventToRecord(reason="QuarantineLifted", message="the operator continues with the job")
        else:
            event = EventToRecord(reason="Quarantined", message=quarantine.message, warning=True)
        self.event_recorder.record(record, event)
        return ExecutionResult()

    async def delete_orphans(self, job: JobId, result: ReconcileResult) -> ExecutionResult:
        """End the pods of a job that is gone."""
        refused = await self._delete_pods(job, result, self.pod_deleter.delete_orphans(job, result))
        return refused or ExecutionResult(result.requeue_at)

    async def settle_pods(self, job: JobId) -> ExecutionResult:
        """Find out which of the unsettled pods of a deleted job exist."""
        await self.pod_creator.settle(job)
        return retry_at(self.clock()) if self.memories[job].unsettled else ExecutionResult()

    async def resolve_uncertain(self, record: JobRecord, action: Action) -> ExecutionResult:
        """Find out whether an uncertain commit was written. The result goes into the cache, which is synced before the
        next decision.
        """
        reply = await self.kube.get(TRAINING_JOBS, record.name, record.namespace)
        self.memories[record.id].uncertain = None
        if reply.done and version_of(reply.document) > record.version:
            self.cache.put(TRAINING_JOBS, reply.document)
        self.cluster.resolve_assumption(record.id, action, None)
        return ExecutionResult()

    async def write(self, record: JobRecord, status: TrainingJobStatus) -> JobRecord | None:
        """Write the status and return the new record; None if another write came first, or the job is gone.

        Raises `RefusedError` if the API server does not accept the status.
        """
        change = difference(record.written, status.to_document())  # what a newer release wrote beside it stays
        if not change or record.status_problem is not None:
            return record
        if record.phase in HOLDING and status.phase not in HOLDING and record.may_have_token:
            # Before the status is written, so that the leader after a crash in between does it again. If the API server
            # refuses, the Secret is deleted with the job later.
            secret = token_secret_name(record.uid, record.status.attempts)
            await self.kube.delete(SECRETS, secret, record.namespace)
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
        # Another write came first, or the job is gone. The next decision starts from the newest document.
        fresh = await self.kube.get(TRAINING_JOBS, record.name, record.namespace)
        if fresh.done:
            self.cache.put(TRAINING_JOBS, fresh.document)
        elif fresh.outcome is Outcome.MISSING:
            self.cache.remove(TRAINING_JOBS, record.namespace, record.name, record.uid)
        return None

    async def _clear_suspend_reason(self, record: JobRecord) -> None:
        """Remove the reason of a suspension that is over, unless somebody has written the job since: somebody who
        suspends it again without a reason must not be given the old one.
        """
        metadata = {
            "resourceVersion": str(record.version),
            "uid": record.uid,
            "annotations": {names.ANNOTATION_SUSPEND_REASON: None},
        }
        reply = await self.kube.patch(TRAINING_JOBS, record.name, {"metadata": metadata}, namespace=record.namespace)
        if reply.done:
            self.cache.put(TRAINING_JOBS, reply.document)

    async def _delete_pods(
        self, job: JobId, result: ReconcileResult, deletions: Awaitable[str]
    ) -> ExecutionResult | None:
        """Delete pods, and record Events about forced deletions. Returns the pause after a refusal, else None."""
        if refusal := await deletions:
            self.event_recorder.record(job, EventToRecord(reason="DeletionRefused", message=refusal, warning=True))
            return ExecutionResult(self.clock() + REFUSED_PAUSE_S)
        for again in result.forced_deletions:
            self.event_recorder.record(job, again.event)
        return None

    async def create_pods(self, record: JobRecord) -> ExecutionResult:
        """Make the pods of a placement, unless it cannot be carried out: the next reconcile then gives it up."""
        if (
            self.cache.job(record.id) is None
            or self.cluster.core_jobs.placement_error(record, self.clock()) is not None
        ):
            return ExecutionResult()
        created = await self.pod_creator.create(record)
        return retry_at(self.clock()) if created is Creation.RETRY else ExecutionResult()
