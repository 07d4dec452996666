"""From the mirror to the core: keeps `ClusterState` fed with facts about nodes (`fleet`), queues and jobs.

A pod that may still run holds its GPUs whatever has become of its job, and where no committed placement covers it, a
remainder stands in (`remainders`). So nothing is handed out twice, after a crash or a deletion either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.api.conversion.to_core import to_job, to_placement, to_queue
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.errors import DocumentError
from cotenant.controller.cluster.budgets import Budgets
from cotenant.controller.cluster.failover import failover_state
from cotenant.controller.cluster.nodes import ClusterNodes
from cotenant.controller.cluster.orphaned_allocations import orphaned_allocations, unreadable_job
from cotenant.controller.cluster.placement_validation import GpuHolders, pod_contradiction, shape_error
from cotenant.controller.cluster.told import Told
from cotenant.controller.informers.cache import Changes, ObjectCache
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import HOLDING, Phase
from cotenant.core.model.objects import Job, JobKey, Placement
from cotenant.core.model.plan import Action
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import JobGone, JobObserved, QueueGone, QueueObserved


@dataclass(frozen=True, slots=True)
class JobReading:
    """A job as the core sees it, or what is wrong with it."""

    job: Job | None
    problem: str = ""


class ClusterView:
    def __init__(self, cache: ObjectCache, settings: Settings, budgets: Budgets) -> None:
        self.cache = cache
        self.state = ClusterState(history_half_life_s=settings.history_half_life_s)
        self.told = Told(self.state)
        self.nodes = ClusterNodes(cache, self.told, settings)
        self.gpu_holders = GpuHolders()
        self._reserve_mib = settings.reserve_head_mib
        self._budgets = budgets
        self._watched_since: float | None = None
        self._orphaned: dict[str, set[JobKey]] = {}
        """uid of a job → keys of its remainders."""
        self._resolved: list[tuple[Action, int | None]] = []
        self._readings: dict[JobKey, tuple[TrainingJob, frozenset[str], dict[str, int], JobReading]] = {}
        """Key of a job → what it was last read from, and as what: every step of a job asks several times."""

    def restore(self, now: float) -> None:
        """A new leader looks at everything, goes on from what the last one wrote down, and gives what it does not find
        time to appear."""
        for key in list(self.cache.jobs):
            self.cache.requeue(key)
        self.cache.changed.uids |= set(self.cache.workers)
        handover = failover_state(self.cache.queues, self.cache.jobs, lambda record: self.reading(record, now).job)
        self.state.restore(handover, now)
        self._watched_since = now
        self.told.stale = True

    def snapshot(self, now: float) -> Snapshot:
        return replace(
            self.state.snapshot(now), watched_since=now if self._watched_since is None else self._watched_since
        )

    def sync(self, now: float) -> Changes:
        """Tell the core what changed; returns what did, for the steps of the jobs concerned."""
        settled, self._resolved = self._resolved, []
        for action, version in settled:
            if version is None:
                self.state.forget(action)
                self.told.stale = True
            else:
                self.state.confirm(action, version)
        changed = self.cache.pop_changes()
        self.nodes.sync(changed.nodes, now)
        if changed.queues or self._budgets.take_changed():
            self._sync_queues(now)
        for key in changed.jobs | self._jobs_with_exclusions(now):
            self._sync_job(key, now)
        for uid in changed.uids:
            self._sync_orphaned(uid)
        return changed

    def resolve_assumption(self, action: Action, version: int | None) -> None:
        """An action was written (at that version) or not at all. Noted until the next flush: while a decision is being
        made in its thread, nobody writes to the state."""
        self._resolved.append((action, version))

    def reading(self, record: JobRecord, now: float) -> JobReading:
        if record.job is None:
            return JobReading(None, record.problem)
        avoided = frozenset(one.node for one in record.status.excluded_nodes if one.until.timestamp() > now)
        classes = self.cache.priority_classes
        last = self._readings.get(record.key)
        if last is not None and last[0] is record.job and last[1:3] == (avoided, classes):
            return last[3]
        found = self._read(record.job, avoided)
        self._readings[record.key] = (record.job, avoided, dict(classes), found)
        return found

    def _read(self, job: TrainingJob, avoided: frozenset[str]) -> JobReading:
        try:
            read = to_job(job, priority_classes=self.cache.priority_classes, excluded_nodes=avoided)
        except DocumentError as error:
            return JobReading(None, "; ".join(str(one) for one in error.problems))
        # The launcher's own memory is part of the pod's request; counted for each worker, which is never too little.
        return JobReading(replace(read, memory_mib=read.memory_mib + self._reserve_mib))

    def _sync_queues(self, now: float) -> None:
        for name in {name for name, _ in self.told.all("queue")} - set(self.cache.queues):
            self.told.observe("queue", name, QueueGone(name), None)
        for name, document in self.cache.queues.items():
            spent = self._budgets.spent(name)
            queue = to_queue(document, namespaces=self.cache.namespaces, spent_milli_gpu_seconds=spent)
            self.told.observe("queue", name, QueueObserved(queue), queue)

    def _jobs_with_exclusions(self, now: float) -> set[JobKey]:
        """Jobs that avoid a node for some time: the time may be over."""
        return {key for key, job in self.told.all("job") if job.excluded_nodes and job.placement is None}

    def _sync_job(self, key: JobKey, now: float) -> None:
        record = self.cache.jobs.get(key)
        if record is None:
            self._readings.pop(key, None)
        job = None if record is None else self.as_core_job(record, now)
        if record is None or job is None:
            self._drop_job(key)
        else:
            self.gpu_holders.set(key, job)
            self.told.observe("job", key, JobObserved(job, record.version), job)
        if record is not None:
            self._sync_orphaned(record.uid)

    def as_core_job(self, record: JobRecord, now: float) -> Job | None:
        """The job if it waits or holds; nothing when it is finished, suspended, invalid or on its way out."""
        phase = Phase(record.status.phase or Phase.PENDING)
        readable = self.reading(record, now)
        if phase in HOLDING and record.status.placement is not None:
            job = readable.job or unreadable_job(record, to_placement(record.status.placement))
            return replace(job, resizing_from=self._leaving(record))
        if phase is not Phase.PENDING or record.deleting or record.job is None or record.job.spec.suspend:
            return None
        return readable.job

    def _leaving(self, record: JobRecord) -> Placement | None:
        """Where pods of an earlier attempt still run: after a resize, or on a node that does not answer."""
        earlier = [pod for pod in self.cache.pods_of(record.uid).values() if pod.held and _is_earlier(pod, record)]
        nodes = tuple(pod.worker.placement for pod in earlier if pod.worker and pod.worker.placement)
        return Placement(nodes=nodes) if nodes else None

    def _sync_orphaned(self, uid: str) -> None:
        """One remainder for each attempt that still has pods which no committed placement covers."""
        wanted = orphaned_allocations(self._uncovered(uid), uid)
        for key in self._orphaned.get(uid, set()) - set(wanted):
            self._drop_job(key)
        for key, job in wanted.items():
            self.gpu_holders.set(key, job)
            self.told.observe("job", key, JobObserved(job), job)
        if wanted:
            self._orphaned[uid] = set(wanted)
        else:
            self._orphaned.pop(uid, None)

    def _drop_job(self, key: JobKey) -> None:
        self.gpu_holders.set(key, None)
        self.told.observe("job", key, JobGone(key), None)

    def _uncovered(self, uid: str) -> list[PodRecord]:
        """Pods of the job with this uid whose GPUs no committed placement speaks of."""
        pods = list(self.cache.pods_of(uid).values())
        worker = pods[0].worker if pods else None
        record = self.cache.jobs.get(f"{pods[0].namespace}/{worker.job}") if worker else None
        if record is None or record.uid != uid or record.status.phase not in HOLDING:
            return pods
        if record.status.placement is None:
            return pods
        # Of the running attempt, the status counts only as far as it says what the pod was given.
        placement = to_placement(record.status.placement)
        return [
            pod
            for pod in pods
            if not _is_earlier(pod, record) and (not _is_current(pod, record) or pod_contradiction(placement, [pod]))
        ]

    def placement_error(self, record: JobRecord, now: float) -> str:
        """What is wrong with a committed placement, as no decision of the loop would be; empty when nothing is.

        Whether it fits beside the others is asked only as long as pods have to be made for it.
        """
        if record.status.placement is None or record.status.phase not in {Phase.STARTING, Phase.RUNNING}:
            return ""
        placement = to_placement(record.status.placement)
        gang = [pod for pod in self.cache.pods_of(record.uid).values() if _is_current(pod, record)]
        job = self.reading(record, now).job
        said = (job and (shape_error(job, placement) or _server_count_error(record))) or pod_contradiction(
            placement, gang
        )
        ranks = [pod for pod in gang if pod.worker and not pod.worker.server]
        if said or record.status.phase is Phase.RUNNING or len(ranks) >= len(placement.nodes):
            return said
        self.gpu_holders.set(
            record.key, self.as_core_job(record, now)
        )  # it may have been committed since the last flush
        nodes = {part.node: self.nodes.node(part.node) for part in placement.nodes}
        return self.gpu_holders.conflict(
            record.key, placement, {name: node for name, node in nodes.items() if node is not None}
        )


def _server_count_error(record: JobRecord) -> str:
    """An attempt of a version that put servers into the pods of the ranks has none of their own, and is left alone."""
    held = (record.status.placement.servers or 0) if record.status.placement else 0
    if held in {0, record.servers}:
        return ""
    return f"it has {counted(held, 'parameter server')}, and the job asks for {record.servers}"


def _is_earlier(pod: PodRecord, record: JobRecord) -> bool:
    return pod.worker is not None and pod.worker.attempt < record.status.attempts


def _is_current(pod: PodRecord, record: JobRecord) -> bool:
    return pod.worker is not None and pod.worker.attempt == record.status.attempts
