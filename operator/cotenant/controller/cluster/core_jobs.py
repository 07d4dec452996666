"""TrainingJobs as the core sees them: read from their documents, with what pods of earlier attempts still hold."""

from __future__ import annotations

from dataclasses import replace

from cotenant.api.conversion.to_core import to_job
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.errors import DocumentError
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import CoreReading, JobMemories
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.quarantine import Stage
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import HOLDING, Phase
from cotenant.core.model.objects import GpuRequest, Job, Placement


class CoreJobs:
    def __init__(self, cache: ObjectCache, memories: JobMemories, settings: Settings) -> None:
        self._cache, self._pods = cache, cache.pods
        self._memories = memories
        self._reserve_mib = settings.reserve_head_mib

    def reading(self, record: JobRecord, now: float) -> CoreReading:
        """Read once for each state of what it is read from: every step of a job needs it several times."""
        if record.job is None:
            return CoreReading(None, record.problem)
        excluded = frozenset(one.node for one in record.status.excluded_nodes if one.until.timestamp() > now)
        classes, memory = self._cache.priority_classes, self._memories[record.id]
        last = memory.reading
        if last and (last.source is record.job) and (last.excluded_nodes, last.priority_classes) == (excluded, classes):
            return last
        memory.reading = self._read(record.job, excluded)
        return memory.reading

    def job(self, record: JobRecord, now: float) -> Job | None:
        """The job if it waits or holds; None when it is finished, suspended, invalid, quarantined or on its way out."""
        if record.phase in HOLDING and record.placement is not None:
            if self.gave_back(record):
                return None
            return self._holding(record, now)
        if record.phase is not Phase.PENDING or record.deleting or record.job is None or record.job.spec.suspend:
            return None
        quarantined = self._memories[record.id].is_quarantined(record.generation, now)
        return None if quarantined else self.reading(record, now).job

    def gave_back(self, record: JobRecord) -> bool:
        """Nothing of its attempt runs, and that cannot be written into its status: the placement counts no more."""
        return self._memories[record.id].given_back == record.status.attempts

    def as_it_holds(self, record: JobRecord) -> Job | None:
        """The job where nothing else of it can be worked with: what its status says it holds, and is not moved."""
        holds = record.phase in HOLDING and record.placement is not None and not self.gave_back(record)
        return self._as_it_holds(record) if holds else None

    def _holding(self, record: JobRecord, now: float) -> Job | None:
        memory = self._memories[record.id]
        stage = memory.quarantine.stage if memory.quarantine and memory.is_quarantined(record.generation, now) else None
        job = None if stage is Stage.CONVERSION else self.reading(record, now).job
        if job is None:
            return self._as_it_holds(record)
        return replace(set_aside(job) if stage is Stage.SCHEDULING else job, resizing_from=self._left_behind(record))

    def _as_it_holds(self, record: JobRecord) -> Job | None:
        if record.placement is None:
            return None
        held = unreadable_job(record, record.placement)
        return replace(held, resizing_from=self._left_behind(record))

    def _read(self, job: TrainingJob, excluded: frozenset[str]) -> CoreReading:
        classes = dict(self._cache.priority_classes)
        try:
            read = to_job(job, priority_classes=classes, excluded_nodes=excluded)
        except DocumentError as error:
            problem = "; ".join(str(one) for one in error.problems)
            return CoreReading(None, problem, job, excluded, classes)
        # The launcher's own memory is part of the pod's request; counted for each worker, which is never too little.
        read = replace(read, memory_mib=read.memory_mib + self._reserve_mib)
        return CoreReading(read, None, job, excluded, classes)

    def _left_behind(self, record: JobRecord) -> Placement | None:
        """Where pods of an earlier attempt still run: after a resize, or on a node that does not answer."""
        attempt = record.status.attempts
        earlier = [pod for pod in self._pods.of_job(record.id).values() if pod.held and pod.is_before(attempt)]
        nodes = tuple(pod.worker.placement for pod in earlier if pod.worker and pod.worker.placement)
        return Placement(nodes=nodes) if nodes else None


def unreadable_job(record: JobRecord, placement: Placement) -> Job:
    """A job that runs, though its spec cannot be read any more. It keeps what it holds until its queue has to give it
    back or wants it for a job of a higher priority; one that nothing but its placement is known of is not moved.
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
        admitted_at=record.status.placement.admitted_at.timestamp() if record.status.placement else 0.0,
        preemptible=record.job is None and bool(record.queue_named),
        evicting=record.phase is Phase.EVICTING,
    )


def set_aside(job: Job) -> Job:
    """A job that runs and with which no decision can be made: it keeps what it holds, and is not moved."""
    workers = job.placement.workers if job.placement else 0
    return replace(
        job, workers_min=workers, workers_max=workers, gpu=GpuRequest(), topology=None, expected_runtime_s=None,
        max_runtime_s=None, preemptible=False,
    )  # fmt: skip
