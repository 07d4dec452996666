"""TrainingJobs as the core sees them: read from their documents, with what pods of earlier attempts still hold."""

from __future__ import annotations

from dataclasses import replace

from cotenant.api.conversion.to_core import to_job
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.errors import DocumentError
from cotenant.controller.cluster.orphaned_allocations import unreadable_job
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import CoreReading, JobMemories
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import HOLDING, Phase
from cotenant.core.model.objects import Job, Placement


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
        """The job if it waits or holds; None when it is finished, suspended, invalid or on its way out."""
        reading = self.reading(record, now)
        if record.phase in HOLDING and record.placement is not None:
            job = reading.job or unreadable_job(record, record.placement)
            return replace(job, resizing_from=self._left_behind(record))
        if record.phase is not Phase.PENDING or record.deleting or record.job is None or record.job.spec.suspend:
            return None
        return reading.job

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
