"""Pods of Cotenant that hold GPUs, in particular those that no committed placement covers.

A pod that may still run holds its GPUs, even if its job is gone, provided that a decision of this operator can have
made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from cotenant.controller.cluster.core_jobs import CoreJobs
from cotenant.controller.cluster.placement_validation import covers, pod_contradiction
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.core.model.lifecycle import HOLDING
from cotenant.core.state.cluster_state import ClusterState


class CountedPods:
    def __init__(self, cache: ObjectCache, memories: JobMemories, core_jobs: CoreJobs, state: ClusterState) -> None:
        self._cache = cache
        self._memories = memories
        self._core_jobs = core_jobs
        self._state = state
        self._served: Set[str] = frozenset()
        """Namespaces that some queue serves."""

    def serve(self, namespaces: Set[str]) -> None:
        """Set the namespaces that queues serve. Jobs whose pods are now judged differently are looked at again."""
        differ = namespaces ^ self._served
        if not differ:
            return
        jobs = (pod.worker.job for pod in self._cache.pods.ours() if pod.worker)
        self._cache.mark_changed(job for job in jobs if job.namespace in differ)
        self._served = namespaces

    def granted(self, job: JobId) -> tuple[PodRecord, ...]:
        """Pods of the job that a decision of this operator can have made."""
        return tuple(pod for pod in self._cache.pods.of_job(job).values() if self.is_granted(pod))

    def is_granted(self, pod: PodRecord) -> bool:
        """True if the pod's contract counts: a queue serves its namespace, or its attempt was committed.

        Elsewhere no policy looks at pods, and anybody may write a contract into one.
        """
        if pod.worker is None:
            return False
        job, memory = pod.worker.job, self._memories[pod.worker.job]
        record = self._cache.job(job)
        if record is not None:
            memory.attempts = max(memory.attempts, record.status.attempts)
        if job.namespace in self._served:
            memory.attempts = max(memory.attempts, pod.worker.attempt)
        return 1 <= pod.worker.attempt <= memory.attempts

    def uncovered(self, job: JobId) -> list[PodRecord]:
        """Pods of the job without a committed placement, including pods that were asked for and may exist already."""
        pods, departed = self._cache.pods.holding(job)
        seen = {pod.name for pod in pods}
        unsettled = [pod for name, pod in self._memories[job].unsettled.items() if name not in seen]
        record = self._cache.job(job)
        if (
            record is None
            or record.phase not in HOLDING
            or record.placement is None
            or self._core_jobs.gave_back(record)
        ):
            return [*pods, *departed, *unsettled]
        # Of the running attempt, the status counts only as far as it names what the pod was given.
        attempt, placement = record.status.attempts, record.placement
        uncovered = [
            pod
            for pod in pods
            if not pod.is_before(attempt) and (not pod.is_of(attempt) or pod_contradiction(placement, [pod]))
        ]
        uncovered += [pod for pod in unsettled if not pod.is_of(attempt)]
        return uncovered + [pod for pod in departed if not (pod.is_of(attempt) and covers(placement, pod))]

    def queue_of(self, job: JobId, pods: Iterable[PodRecord]) -> str:
        """Queue of the job's spec. If the job is gone: the queue of the pod's label, if it serves the namespace, or
        another one that does.
        """
        record = self._cache.job(job)
        if record is not None and record.job is not None:
            return record.job.spec.queue
        serving = sorted(name for name, queue in self._state.queues.items() if job.namespace in queue.namespaces)
        labels = {pod.queue_label for pod in pods}
        return next((name for name in serving if name in labels), serving[0] if serving else "")
