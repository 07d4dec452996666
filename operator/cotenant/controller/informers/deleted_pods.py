"""Disruptions of pods that are not there any more: Kubernetes shows them in the last state of them, as they vanish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cotenant.controller.informers.disruption import Disruption
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pod_record import PodRecord

_NONE: Mapping[str, Disruption] = MappingProxyType({})


@dataclass(slots=True)
class DeletedPods:
    """Of the newest attempt of each job: what went with an older one explains nothing any more."""

    _attempts: dict[tuple[str, str], tuple[int, dict[str, Disruption]]] = field(default_factory=dict)
    """Namespace and uid of the job → its attempt, and name of the pod → what ended it."""

    def record(self, pod: PodRecord) -> None:
        """Keep the disruption of a pod, as it was last seen; one without is not kept."""
        if pod.worker is None or pod.disruption is None:
            return
        owner = pod.worker.job.owner
        attempt, disruptions = self._attempts.get(owner, (0, {}))
        if pod.worker.attempt > attempt:
            attempt, disruptions = pod.worker.attempt, {}
        if pod.worker.attempt == attempt:
            disruptions[pod.name] = pod.disruption
            self._attempts[owner] = (attempt, disruptions)

    def disruptions_of(self, job: JobId) -> Mapping[str, Disruption]:
        """By name of the pod."""
        return self._attempts[job.owner][1] if job.owner in self._attempts else _NONE

    def forget(self, job: JobId) -> None:
        self._attempts.pop(job.owner, None)
