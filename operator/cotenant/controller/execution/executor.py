"""Carries out what was decided: one write of a job's status, then what follows from it. All of it is safe to repeat.

The status write is the commit point: guarded by resourceVersion, it fails when anybody wrote in between; then nothing
else happens and the decision is forgotten. What follows (pods, deletions, Events) can be done again by any later leader
from the committed status alone. The client holds back the writes of a replica that does not lead (FencedError).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field

from cotenant.api.conversion.to_core import to_placement
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import (
    PODS,
    TRAINING_JOBS,
    FencedError,
    Kube,
    Outcome,
    Reply,
    UnreachableError,
    version_of,
)
from cotenant.controller.client.merge_patch import merge_patch
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.execution.event_recorder import EventRecorder
from cotenant.controller.execution.pod_creator import Creation, PodCreator
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import EventToRecord, ReconcileResult
from cotenant.controller.lifecycle.words import gpu_request
from cotenant.controller.reports.slow_gpus import slow_gpu_notice
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import LifecycleEvent
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Action, Admit, Evict, Resize, Verdict

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause before something that did not work is tried again."""


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What came of it, for the loop: look at the job again then, if at all."""

    requeue_at: float | None = None


@dataclass(slots=True, kw_only=True)
class Executor:
    kube: Kube
    cluster: ClusterView
    pod_creator: PodCreator
    event_recorder: EventRecorder
    metrics: Metrics
    uncertain: dict[JobKey, Action] = field(default_factory=dict)
    """Commits whose answer never came: assumed to hold until the API server has said what it has."""

    async def apply(self, record: JobRecord, result: ReconcileResult) -> ExecutionResult:
        """A step of the job's life: status, then Events, then the pods that must go or come."""
        now = time.time()
        if result.status is not None:
            if not await self._write(record, result.status):
                return ExecutionResult(now + RETRY_S)
            self._record_event(record, result.event)
        await self.delete_pods(result.delete_pods)
        if result.create_pods:
            return await self._create(record)
        if result.delete_job:
            await self.kube.delete(TRAINING_JOBS, record.name, record.namespace, uid=record.uid)
        return ExecutionResult(result.requeue_at)

    async def admit(self, record: JobRecord, action: Admit) -> ExecutionResult:
        """Commit the placement; only then make the pods."""
        now = time.time()
        isolation = self.cluster.nodes.isolation_level(action.placement)
        nodes = [node.node for node in action.placement.nodes]
        workers = action.placement.workers
        message = f"admitted: {workers} worker{'' if workers == 1 else 's'} on {_node_list(nodes)}"
        message += slow_gpu_notice(action.placement, self.cluster.cache.gpu_nodes)
        status = record.status.model_copy(
            update={"observed_generation": record.generation, "gpus": _gpu_request(record)}
        )
        status = status_transitions.admitted(status, action.placement, isolation, message, now, servers=record.servers)
        if not await self._commit(record, action, status):
            return ExecutionResult(now + RETRY_S)
        self._record_event(record, EventToRecord(reason="Admitted", message=message))
        committed = self.cluster.cache.jobs.get(record.key)
        if committed is None or committed.uid != record.uid:
            return ExecutionResult()
        if record.job is not None and record.job.metadata.creation_timestamp is not None:
            waited = now - record.job.metadata.creation_timestamp.timestamp()
            self.metrics.waited.labels(record.job.spec.queue).observe(max(0.0, waited))
        return await self._create(committed)

    async def evict(self, record: JobRecord, action: Evict) -> ExecutionResult:
        """Write the eviction down, then end the pods."""
        now = time.time()
        kind = action.kind.value
        status = status_transitions.evicting(
            record.status,
            LifecycleEvent.EVICTED,
            kind=kind,
            message=action.message,
            now=now,
            in_favour_of=action.in_favour_of,
        )
        return await self._commit_departure(record, action, status, EventToRecord(reason=kind, message=action.message))

    async def resize(self, record: JobRecord, action: Resize) -> ExecutionResult:
        """Commit the new placement of an elastic job. Its next attempt starts when the pods of this one are gone."""
        now = time.time()
        before = to_placement(record.status.placement) if record.status.placement else None
        status = status_transitions.resized(
            record.status,
            action.placement,
            isolation=self.cluster.nodes.isolation_level(action.placement),
            message=action.message,
            milli=self.cluster.nodes.held_milli(before) if before else 0,
            now=now,
            servers=record.servers,
        )
        return await self._commit_departure(
            record, action, status, EventToRecord(reason="Resized", message=action.message)
        )

    async def _commit_departure(
        self, record: JobRecord, action: Evict | Resize, status: TrainingJobStatus, note: EventToRecord
    ) -> ExecutionResult:
        if not await self._commit(record, action, status):
            return ExecutionResult(time.time() + RETRY_S)
        self._record_event(record, note)
        pods = self.cluster.cache.pods_of(record.uid).values()
        await self.delete_pods(tuple(pod for pod in pods if pod.held and not pod.deleting))
        return ExecutionResult(time.time())

    async def report_pending(self, record: JobRecord, verdict: Verdict) -> ExecutionResult:
        """Tell a job that waits why."""
        status = record.status.model_copy(
            update={"observed_generation": record.generation, "gpus": _gpu_request(record)}
        )
        news = record.status.pending is None or record.status.pending.reason != verdict.reason.value
        if await self._write(record, status_transitions.waiting(status, verdict, time.time())) and news:
            reason = verdict.reason
            self._record_event(
                record, EventToRecord(reason=reason.value, message=verdict.message, warning=reason.needs_change)
            )
        return ExecutionResult()

    async def delete_pods(self, pods: tuple[PodRecord, ...]) -> None:
        """Ask pods to end, each by its uid, with the grace period that it was made with."""

        async def one(pod: PodRecord) -> None:
            reply = await self.kube.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
            if reply.done and reply.document.get("kind") == "Pod":
                self.cluster.cache.put(PODS, reply.document)
            elif reply.outcome in {Outcome.MISSING, Outcome.CONFLICT}:
                self.cluster.cache.remove(PODS, pod.namespace, pod.name, pod.uid)

        await gather_bounded([one(pod) for pod in pods])

    async def delete_orphans(self, key: str, uid: str) -> ExecutionResult:
        """Pods of a job that is gone: once the API server has confirmed that, they are ended."""
        namespace, name = key.split("/", 1)
        reply = await self.kube.get(TRAINING_JOBS, name, namespace)
        if reply.done and reply.document["metadata"]["uid"] == uid:
            self.cluster.cache.put(TRAINING_JOBS, reply.document)
            return ExecutionResult()
        pods = self.cluster.cache.pods_of(uid).values()
        await self.delete_pods(tuple(pod for pod in pods if not pod.deleting))
        return ExecutionResult()

    async def resolve_uncertain(self, record: JobRecord, action: Action) -> ExecutionResult:
        """Ask what became of an uncertain commit: it holds, or it is forgotten."""
        reply = await self.kube.get(TRAINING_JOBS, record.name, record.namespace)
        del self.uncertain[record.key]
        if reply.done and version_of(reply.document) > record.version:
            self.cluster.cache.put(TRAINING_JOBS, reply.document)
        self.cluster.resolve_assumption(
            action, None
        )  # what was written is in the mirror now, which is read before the next decision
        return ExecutionResult(time.time())

    async def _commit(self, record: JobRecord, action: Action, status: TrainingJobStatus) -> bool:
        """The write that makes an action true, or its assumption forgotten."""
        try:
            done = await self._write(record, status)
        except FencedError:
            self.cluster.resolve_assumption(action, None)  # it was never sent
            raise
        except UnreachableError:
            self.uncertain[record.key] = action
            raise
        self.metrics.actions.labels(type(action).__name__, str(done).lower()).inc()
        if done:
            written = self.cluster.cache.jobs.get(record.key)
            self.cluster.resolve_assumption(action, written.version if written else record.version)
        else:
            self.cluster.resolve_assumption(action, None)
        return done

    async def _write(self, record: JobRecord, status: TrainingJobStatus) -> bool:
        change = merge_patch(record.raw_status, status)
        if not change:
            return True
        body = {"metadata": {"resourceVersion": str(record.version), "uid": record.uid}, "status": change}
        reply = await self.kube.patch(
            TRAINING_JOBS, record.name, body, namespace=record.namespace, subresource="status"
        )
        if reply.done:
            self.cluster.cache.put(TRAINING_JOBS, reply.document)
            if "phase" in change:
                self.metrics.transitions.labels(str(status.phase)).inc()
                log.info("%s: %s (%s)", record.key, status.phase, status.reason)
            return True
        await self._refetch(record, reply)
        return False

    async def _refetch(self, record: JobRecord, reply: Reply) -> None:
        """Why a write failed: somebody was faster, or the job is gone."""
        if reply.outcome is Outcome.REFUSED:
            log.error("the status of %s was refused (%d): %s", record.key, reply.code, reply.message)
            return
        fresh = await self.kube.get(TRAINING_JOBS, record.name, record.namespace)
        if fresh.done:
            self.cluster.cache.put(TRAINING_JOBS, fresh.document)
        elif fresh.outcome is Outcome.MISSING:
            self.cluster.cache.remove(TRAINING_JOBS, record.namespace, record.name, record.uid)

    async def _create(self, record: JobRecord) -> ExecutionResult:
        if self.cluster.placement_error(record, time.time()):
            return ExecutionResult(time.time())  # the next step says so, and gives the placement up
        born = await self.pod_creator.create(record)
        if born is Creation.RETRY:
            return ExecutionResult(time.time() + RETRY_S)
        return ExecutionResult(time.time()) if born is Creation.REJECTED else ExecutionResult()

    def _record_event(self, record: JobRecord, event: EventToRecord | None) -> None:
        if event is not None:
            self.event_recorder.record(record, event)


async def gather_bounded(calls: list[Awaitable[None]]) -> None:
    """All of them; the client bounds how many are in flight. The first error is raised after all have ended."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _gpu_request(record: JobRecord) -> str | None:
    return gpu_request(record.job.spec) if record.job else None


def _node_list(nodes: list[str]) -> str:
    if len(nodes) <= 4:
        return ", ".join(nodes)
    return f"{', '.join(nodes[:3])} and {len(nodes) - 3} more nodes"
