"""Deleted pods in the last state that was seen: what removed them, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.informers.pods.pod_record import PodRecord


@dataclass(slots=True)
class DeletedPods:
    """Deleted pods of the newest attempt of each job. Pods of older attempts no longer explain anything."""

    _attempts: dict[tuple[str, str], tuple[int, dict[str, PodRecord]]] = field(default_factory=dict)
    """(namespace, uid) of the job → its attempt, and its pods by name."""

    def record(self, pod: PodRecord) -> None:
        """Keep a deleted pod as it was last seen, if it had a disruption or an exit."""
        if pod.worker is None or (pod.disruption is None and pod.exit is None):
            return
        owner = pod.worker.job.owner
        attempt, pods = self._attempts.get(owner, (0, {}))
        if pod.worker.attempt > attempt:
            attempt, pods = pod.worker.attempt, {}
        if pod.worker.attempt == attempt:
            pods[pod.name] = pod
            self._attempts[owner] = (attempt, pods)

    def disruptions_of(self, job: JobId) -> Mapping[str, Disruption]:
        """Disruptions by name of the pod."""
        return {name: pod.disruption for name, pod in self._pods_of(job).items() if pod.disruption is not None}

    def ended_of(self, job: JobId) -> tuple[PodRecord, ...]:
        """Pods that had ended before they were deleted."""
        return tuple(pod for pod in self._pods_of(job).values() if pod.exit is not None)

    def forget(self, job: JobId) -> None:
        self._attempts.pop(job.owner, None)

    def _pods_of(self, job: JobId) -> Mapping[str, PodRecord]:
        return self._attempts[job.owner][1] if job.owner in self._attempts else {}
