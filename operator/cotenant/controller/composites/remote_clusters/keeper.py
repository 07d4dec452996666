"""Looks after the jobs on one RemoteCluster, in a task of its own, so that a slow cluster delays nobody else."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from cotenant.api.resources.placement_status import ClusterRun
from cotenant.api.resources.remote_clusters import RemoteCluster
from cotenant.controller.client.kube import (
    NAMESPACES,
    REMOTE_CLUSTERS,
    TRAINING_JOBS,
    Kube,
    Outcome,
    RefusedError,
    UnreachableError,
)
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.composites.remote_clusters import handover, steps
from cotenant.controller.composites.remote_clusters.cluster_status import cluster_status
from cotenant.controller.composites.remote_clusters.connection import RemoteConnection
from cotenant.controller.composites.remote_clusters.mirror import Origin, SeenMirror, mirror_document
from cotenant.controller.composites.remote_clusters.mirror_access import MirrorAccess, MirrorRefusedError
from cotenant.controller.composites.remote_clusters.steps import MakeMirror, PatchMirror, Step, WriteJob
from cotenant.controller.composites.remote_clusters.trouble import TroubleError
from cotenant.controller.execution.writes.executor import Executor
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.status_reading import read_status
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.reports.rounds import repeat
from cotenant.controller.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

LOOK_S: Final = 3.0
"""Pause between two looks at the cluster."""
LOST_S: Final = 30.0
"""If the cluster is silent for this time, its jobs are told."""
RETURNED_S: Final = 600.0
"""A job that has come back is not handed over again for this time."""
STEPS_MAX: Final = 6
"""Steps of one job in one look."""
STRAYS_MAX: Final = 20
"""Strays that one look ends: somebody who labels many jobs there as ours must not delay the others."""


@dataclass(slots=True, kw_only=True)
class RemoteKeeper:
    name: str
    kube: Kube
    cache: ObjectCache
    executor: Executor
    connection: RemoteConnection
    metrics: Metrics
    clock: Callable[[], float] = time.time
    """Unix seconds."""
    heard_at: float = 0.0
    """Unix seconds of the last answer; 0 if there was none."""
    _origin: Origin | None = None
    _not_before: dict[str, float] = field(default_factory=dict)
    """uid of a job that came back → the earliest time at which it may be handed over again."""

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await repeat(self.look, LOOK_S, "RemoteClusterFailed", self.metrics)
        finally:
            await self.connection.close()

    async def look(self) -> None:
        """Look at the cluster once. Raises UnreachableError for the API server here."""
        known = self.cache.remote_clusters.get(self.name)
        if known is None:
            return
        trouble: TroubleError | None = None
        try:
            await self._look_there(known[0])
            self.heard_at = self.clock()
        except TroubleError as error:
            trouble = error
            await self._note_lost(known[0])
        await self._write_status(trouble)

    def away(self) -> Iterator[tuple[JobRecord, ClusterRun]]:
        """Unfinished jobs on this cluster."""
        for record in list(self.cache.jobs.values()):
            cluster = record.status.cluster
            if cluster is not None and cluster.name == self.name and record.is_away:
                yield record, cluster

    async def _look_there(self, remote: RemoteCluster) -> None:
        there = await self.connection.client(remote.spec.kubeconfig_secret)
        access = MirrorAccess(self.connection, there, await self._origin_here(), remote.spec.pass_users)
        seen = await access.listed(remote.spec.namespace or "")
        await self._end_strays(access, seen)
        for record, cluster in self.away():
            await self._contained(record, access, seen.get((cluster.namespace, cluster.job)))
        jobs, queues = self.cache.jobs.values(), self.cache.queues
        for one in handover.handovers(jobs, queues, self.name, self.clock(), not_before=self._not_before):
            await self._hand_over(one, access, remote)

    async def _origin_here(self) -> Origin:
        if self._origin is None:
            listing = await self.kube.list(NAMESPACES, name="kube-system")
            uid = next((str(one["metadata"]["uid"]) for one in listing.items), "")
            if not uid:
                raise UnreachableError("the namespace kube-system, whose uid names this cluster, was not found")
            self._origin = Origin(uid, self.name)
        return self._origin

    async def _end_strays(self, access: MirrorAccess, seen: dict[tuple[str, str], SeenMirror]) -> None:
        """End jobs there whose record here does not name this cluster: their job was deleted, or given up.

        The record is read from the API server: a new leader may not have seen it yet.
        """
        expected = {place for one in self.cache.jobs.values() if (place := _place_of(one.status.cluster, self.name))}
        others = [
            one for one in seen.items() if one[0] not in expected and not one[1].is_deleting and one[1].origin_key
        ]
        for place, mirror in others[:STRAYS_MAX]:
            namespace, _, name = mirror.origin_key.partition("/")
            reply = await self.kube.get(TRAINING_JOBS, name, namespace)
            if reply.outcome is Outcome.MISSING or (
                reply.done
                and (
                    reply.document["metadata"]["uid"] != mirror.origin_uid
                    or _place_of(read_status(reply.document.get("status") or {}).status.cluster, self.name) != place
                )
            ):
                if await access.end(mirror):
                    log.info("%s/%s on cluster %s is ended: no job %s is there", *place, self.name, mirror.origin_key)
                del seen[place]

    async def _hand_over(self, one: handover.Handover, access: MirrorAccess, remote: RemoteCluster) -> None:
        record, now = one.record, self.clock()
        if one.problem:
            status = handover.stays(record, self.name, one.problem, now)
            if status is not None:
                await self._write(record, WriteJob(status))
            return
        message = f"handed to cluster {self.name}; it still waits here, and starts where there is a place first"
        status = handover.handed_over(record, self.name, remote.spec, now)
        if await self._write(record, WriteJob(status, EventToRecord(reason="HandedOver", message=message))):
            await self._contained(record, access, None)

    async def _contained(self, record: JobRecord, access: MirrorAccess, seen: SeenMirror | None) -> None:
        """Catch what fails for one job, so that it stops no other."""
        try:
            await self._advance(record.id, access, seen)
        except (TroubleError, UnreachableError):
            raise
        except RefusedError as error:
            log.warning("%s on cluster %s: %s", record.key, self.name, error)
        except Exception:
            self.metrics.failures_contained.labels("RemoteJobFailed").inc()
            log.exception("%s on cluster %s could not be looked at", record.key, self.name)

    async def _advance(self, job: JobId, access: MirrorAccess, seen: SeenMirror | None) -> None:
        """Take the steps of one job that are possible now. Each is decided on the newest record."""
        if seen is not None and seen.origin_uid != job.uid:
            seen = None  # somebody else's, with our labels
        server, looked = self.connection.server, seen is not None
        for _ in range(STEPS_MAX):
            record = self.cache.job(job)
            cluster = record.status.cluster if record is not None and record.is_away else None
            if record is None or cluster is None or cluster.name != self.name:
                return
            if not looked and cluster.uid:  # it may be in another namespace, or have lost its labels
                seen, looked = await access.find(cluster), True
            if seen is None and cluster.uid and cluster.server != server:
                await self._note_moved(record, cluster)
                return
            step = steps.next_step(record, cluster, seen, self.clock(), server=server)
            if step is None:
                return
            goes_on, seen = await self._carry_out(step, record, cluster, access, seen)
            if not goes_on:
                return

    async def _carry_out(
        self,
        step: Step,
        record: JobRecord,
        cluster: ClusterRun,
        access: MirrorAccess,
        seen: SeenMirror | None,
    ) -> tuple[bool, SeenMirror | None]:
        """Returns whether the next step can be decided at once, and the newest job there."""
        if isinstance(step, WriteJob):
            return await self._write(record, step), seen
        if isinstance(step, MakeMirror):
            return await self._make(record, cluster, access)
        if isinstance(step, PatchMirror):
            changed = await access.change(step)
            return changed is not None, changed
        return await access.delete(step), None

    async def _make(
        self, record: JobRecord, cluster: ClusterRun, access: MirrorAccess
    ) -> tuple[bool, SeenMirror | None]:
        queue, job = self.cache.queues.get(record.queue_named), record.job
        spillover = queue.spec.spillover if queue is not None else None
        named = (spillover.queue if spillover is not None else None) or record.queue_named
        if job is None:
            return False, None
        document = mirror_document(record, job, access.origin, queue=named, pass_users=access.pass_users)
        try:
            made = await access.make(document, cluster, record.uid)
        except MirrorRefusedError as error:
            refusal = cluster.model_copy(update={"returning": f"cluster {self.name} refuses it: {error}"})
            step = WriteJob(record.status.model_copy(update={"cluster": refusal}))
            return await self._write(record, step), None
        return not made.is_deleting, made

    async def _note_moved(self, record: JobRecord, cluster: ClusterRun) -> None:
        """Report that another API server answers than the one that got the job. A job that is missing there means
        nothing.
        """
        now = self.clock()
        why = (
            f"it was handed to {cluster.server}, and the kubeconfig names {self.connection.server} now, where the job"
            " is not; write the kubeconfig of the first into the Secret, or delete the job"
        )
        status = steps.lost(record, cluster, why, now, now)
        if status is not None:
            await self._write(record, WriteJob(status))

    async def _write(self, record: JobRecord, step: WriteJob) -> bool:
        """Write the status. False if another write came first."""
        try:
            if await self.executor.write(record, step.status) is None:
                return False
        except RefusedError as error:
            log.warning("%s on cluster %s: %s", record.key, self.name, error)
            return False
        if step.event is not None:
            self.executor.event_recorder.record(record, step.event)
        if record.status.cluster is not None and step.status.cluster is None:
            self._not_before[record.uid] = self.clock() + RETURNED_S
        return True

    async def _note_lost(self, remote: RemoteCluster) -> None:
        now, last, give_up_s = self.clock(), remote.status.last_seen, remote.spec.give_up_after
        self.heard_at = self.heard_at or (last.timestamp() if last is not None else now)
        if now < self.heard_at + LOST_S:
            return
        # Tenants read this. The error itself has addresses and requests, and stands in the RemoteCluster.
        why = f"the operator cannot read the jobs there; administrators: `kubectl describe remotecluster {self.name}`"
        for record, cluster in self.away():
            status = steps.lost(record, cluster, why, self.heard_at, now)
            if status is not None:
                event = EventToRecord(reason="ClusterLost", message=steps.said_of_loss(status), warning=True)
                await self._write(record, WriteJob(status, event))
            elif give_up_s is not None and (step := steps.given_up(record, cluster, give_up_s, now)) is not None:
                await self._write(record, step)

    async def _write_status(self, trouble: TroubleError | None) -> None:
        known = self.cache.remote_clusters.get(self.name)
        if known is None:
            return
        remote, raw = known
        away = [record for record, _ in self.away()]
        status = cluster_status(remote, trouble, server=self.connection.server, away=away, now=self.clock())
        self.metrics.remote_cluster_reachable.labels(self.name).set(int(trouble is None))
        self.metrics.remote_cluster_jobs.labels(self.name, "running").set(status.running)
        self.metrics.remote_cluster_jobs.labels(self.name, "waiting").set(status.jobs - status.running)
        change = difference(raw, status.to_document())
        if not change:
            return
        reply = await self.kube.patch(REMOTE_CLUSTERS, self.name, {"status": change}, subresource="status")
        if reply.done:
            self.cache.put(REMOTE_CLUSTERS, reply.document)
        if "reachable" in change:
            reason = "Reachable" if trouble is None else trouble.reason
            event = EventToRecord(reason=reason, message=status.message, warning=trouble is not None)
            cluster = JobId("", self.name, remote.metadata.uid)
            self.executor.event_recorder.record(cluster, event, kind="RemoteCluster")


def _place_of(cluster: ClusterRun | None, remote: str) -> tuple[str, str] | None:
    """Namespace and name of the job on this cluster."""
    return (cluster.namespace, cluster.job) if cluster is not None and cluster.name == remote else None
