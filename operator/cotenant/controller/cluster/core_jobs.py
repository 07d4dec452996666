"""TrainingJobs in the form of the core: their documents, together with what pods of earlier attempts still hold.

The loop never commits a placement that does not fit. But everyone who may write a status can edit the placement in it.
So before pods are made, and while they run, the placement is checked against the nodes' GPUs, other holders, the job's
spec and what its pods were really given.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant import names
from cotenant.api.conversion.job_moves import read_move, with_move
from cotenant.api.conversion.to_core import admitted_at, to_job
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.problems import DocumentError
from cotenant.contract import Role
from cotenant.controller.client.kube import QUEUES
from cotenant.controller.cluster.gpu_holders import GpuHolders
from cotenant.controller.cluster.nodes.cluster_nodes import ClusterNodes
from cotenant.controller.cluster.placement_validation import pod_contradiction, server_count_error, shape_error
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import CoreReading, JobMemories
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.quarantine import Stage
from cotenant.controller.informers.volume_index import MountedClaim
from cotenant.controller.lifecycle.policies.blocked_start import avoided, evicts_from, paused_until
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import HOLDING, Phase
from cotenant.core.model.objects import GpuRequest, Job, Placement


class CoreJobs:
    def __init__(
        self, cache: ObjectCache, memories: JobMemories, settings: Settings, nodes: ClusterNodes, holders: GpuHolders
    ) -> None:
        self._cache, self._pods = cache, cache.pods
        self._memories = memories
        self._reserve_mib = settings.reserve_head_mib
        self._nodes = nodes
        self._gpu_holders = holders

    def reading(self, record: JobRecord, now: float) -> CoreReading:
        """The job for the core. It is cached until one of its inputs changes, because every step of a job needs it
        several times.
        """
        if record.job is None:
            return CoreReading(None, record.problem)
        excluded = avoided(record.status, record.generation, now)
        classes, memory = self._cache.priority_classes, self._memories[record.id]
        last = memory.reading
        mounted = self._cache.volumes.mounted(record.namespace, record.job.spec)
        source = (excluded, classes, mounted)
        if last and last.source is record.job and source == (last.excluded_nodes, last.priority_classes, last.mounted):
            return last
        memory.reading = self._read(record, record.job, excluded, mounted)
        return memory.reading

    def job(self, record: JobRecord, now: float) -> Job | None:
        """The job if it waits or holds; None when it is finished, suspended, invalid, quarantined, on its way out, or
        on another cluster."""
        if record.status_problem is not None:
            held = self.as_it_holds(record)
            return None if held is None else replace(held, preemptible=False)
        if record.is_away and not record.waits_away:
            return None
        if record.phase in HOLDING and record.placement is not None:
            if self.gave_back(record):
                return None
            return self._holding(record, now)
        if record.phase is not Phase.PENDING or record.deleting or record.job is None or record.job.spec.suspend:
            return None
        if record.awaits_word:
            return None
        again_at = paused_until(record.status, record.generation)
        if self._memories[record.id].is_quarantined(record.generation, now) or (
            again_at is not None and now < again_at
        ):
            return None
        job = _as_asked(self.reading(record, now).job, record, now)
        if again_at is None or job is None:
            return job
        # A job whose start was blocked goes behind the jobs that wait by then, and reserves no GPUs by its age.
        spares_until = evicts_from(record.status, record.generation)
        return replace(job, submitted_at=again_at, requeued_at=again_at, evicts_from=spares_until)

    def is_paused(self, record: JobRecord) -> bool:
        """True if the job waits after an attempt that never ran. It comes back to the line when its pause is over."""
        return record.phase is Phase.PENDING and paused_until(record.status, record.generation) is not None

    def gave_back(self, record: JobRecord) -> bool:
        """True if nothing of the attempt runs but the status cannot be written. The placement then no longer counts."""
        return self._memories[record.id].given_back == record.status.attempts

    def as_it_holds(self, record: JobRecord) -> Job | None:
        """The job as its status says it holds GPUs, if nothing else of it can be used. It is not evicted."""
        if record.phase not in HOLDING or record.placement is None or self.gave_back(record):
            return None
        held = unreadable_job(record, record.placement)
        if record.job is not None:  # its document can be read: the operator fails on it, and it is not moved
            held = replace(held, preemptible=False)
        return replace(held, resizing_from=self._left_behind(record))

    def placement_error(self, record: JobRecord, now: float) -> str | None:
        """Error of a committed placement that no decision of the loop can have made; None if there is none.

        While pods have yet to be made, the placement must also fit beside other jobs. Until all pods are bound, it must
        fit beside ResourceClaims of others: binding shows that the kube-scheduler has agreed.
        """
        placement = record.placement
        if placement is None or record.phase not in {Phase.STARTING, Phase.RUNNING}:
            return None
        if self.gave_back(record):
            return "nothing of it ran any more while its status could not be written, and its room was given back"
        gang = [pod for pod in self._pods.of_job(record.id).values() if pod.is_of(record.status.attempts)]
        servers = (record.status.placement.servers or 0) if record.status.placement else 0
        spec = self.reading(record, now).job
        mismatch = (shape_error(spec, placement) or server_count_error(servers, record.servers)) if spec else None
        if error := mismatch or pod_contradiction(placement, gang):
            return error
        ranks = [pod for pod in gang if pod.role is Role.WORKER]
        complete = len(ranks) >= len(placement.nodes)
        if record.phase is Phase.RUNNING or (complete and all(pod.node for pod in ranks)):
            return None
        job = self.job(record, now)
        if job is None:
            return None
        judge = self._gpu_holders.conflict_with_claims if complete else self._gpu_holders.conflict
        return judge(job, self._nodes.known())

    def _holding(self, record: JobRecord, now: float) -> Job | None:
        memory = self._memories[record.id]
        stage = memory.quarantine.stage if memory.quarantine and memory.is_quarantined(record.generation, now) else None
        job = None if stage is Stage.CONVERSION else self.reading(record, now).job
        if job is None:
            return self.as_it_holds(record)
        lies = set_aside(job) if stage is Stage.SCHEDULING else _as_asked(job, record, now)
        return None if lies is None else replace(lies, resizing_from=self._left_behind(record))

    def priority_of_class(self, record: JobRecord) -> int | None:
        """Value of the PriorityClass that the job names; None if it names none, or the class does not exist."""
        name = record.job.spec.priority_class_name if record.job else None
        return self._cache.priority_classes.get(name) if name else None

    def missing_class(self, record: JobRecord) -> str:
        """Name of a deleted PriorityClass of a job that holds GPUs; empty if the class exists or the job names none."""
        name = record.job.spec.priority_class_name if record.job and record.phase in HOLDING else None
        return name if name and name not in self._cache.priority_classes else ""

    def missing_queue(self, record: JobRecord) -> str:
        """Name of a deleted Queue of a job that holds GPUs; empty if the Queue exists."""
        name = record.queue_named if record.phase in HOLDING else ""
        exists = name in self._cache.queues or (QUEUES.plural, name) in self._cache.unreadable
        return "" if exists else name

    def _read(
        self, record: JobRecord, job: TrainingJob, excluded: frozenset[str], mounted: tuple[MountedClaim, ...]
    ) -> CoreReading:
        classes = dict(self._cache.priority_classes)
        gone = self.missing_class(record)
        kept = {gone: self._kept_priority(record)} if gone else {}
        try:
            # The launcher's own memory is part of the pod's request. Counted for each rank, it is never too little.
            read = to_job(job, priority_classes=classes | kept, excluded_nodes=excluded, reserve_mib=self._reserve_mib)
            read = self._cache.volumes.place(read, job, mounted)
        except DocumentError as error:
            return CoreReading(None, error.text, job, excluded, classes, mounted)
        return CoreReading(read, None, job, excluded, classes, mounted)

    def _kept_priority(self, record: JobRecord) -> int:
        """The job's priority at its admission, from its status; otherwise the last one that was read."""
        admitted_with = record.status.placement.priority if record.status.placement else None
        last = self._memories[record.id].reading
        return admitted_with if admitted_with is not None else last.job.priority if last and last.job else 0

    def _left_behind(self, record: JobRecord) -> Placement | None:
        """Placement of pods of earlier attempts that still run: after a resize, or on a node that does not answer."""
        attempt = record.status.attempts
        earlier = [pod for pod in self._pods.of_job(record.id).values() if pod.held and pod.is_before(attempt)]
        nodes = tuple(pod.worker.placement for pod in earlier if pod.worker and pod.worker.placement)
        return Placement(nodes=nodes) if nodes else None


def _as_asked(job: Job | None, record: JobRecord, now: float) -> Job | None:
    """The job with the move that an administrator asked for, if it is still valid."""
    text = record.job.metadata.annotations.get(names.ANNOTATION_MOVE) if record.job else None
    move = read_move(text) if text else None
    if job is None or move is None or move.attempt != record.status.attempts or now >= move.until:
        return job
    return with_move(job, move)


def unreadable_job(record: JobRecord, placement: Placement) -> Job:
    """A running job whose spec cannot be read any more.

    It keeps its GPUs until its queue has to give them back, or wants them for a job of higher priority. If even its
    queue is unknown, it is never evicted.
    """
    return Job(
        key=record.key,
        uid=record.uid,
        namespace=record.namespace,
        queue=record.queue_named,
        workers_min=placement.workers,
        workers_max=placement.workers,
        gpu=GpuRequest(),
        submitted_at=0.0,
        placement=placement,
        admitted_at=admitted_at(record.status) or 0.0,
        preemptible=bool(record.queue_named),
        evicting=record.phase is Phase.EVICTING,
    )


def set_aside(job: Job) -> Job:
    """A running job that breaks decisions: it keeps its GPUs, and no decision moves it."""
    workers = job.placement.workers if job.placement else 0
    return replace(
        job, workers_min=workers, workers_max=workers, gpu=GpuRequest(), topology=None, expected_runtime_s=None,
        max_runtime_s=None, preemptible=False,
    )  # fmt: skip
