"""Why pods that are not there any more went: Kubernetes says it in the last that it shows of them, as they vanish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cotenant.controller.informers.disruption import Disruption
from cotenant.controller.informers.pod_record import PodRecord

_NONE: Mapping[str, Disruption] = MappingProxyType({})


@dataclass(slots=True)
class DeletedPods:
    """Of the newest attempt of each job: what went with an older one explains nothing any more."""

    _attempts: dict[str, tuple[int, dict[str, Disruption]]] = field(default_factory=dict)
    """Uid of the job → its attempt, and pod → who took it."""

    def record(self, pod: PodRecord) -> None:
        """`pod` as it was last seen. One that nobody was said to take is not kept."""
        if pod.worker is None or pod.disruption is None:
            return
        attempt, taken = self._attempts.get(pod.worker.job_uid, (0, {}))
        if pod.worker.attempt > attempt:
            attempt, taken = pod.worker.attempt, {}
        if pod.worker.attempt == attempt:
            taken[pod.name] = pod.disruption
            self._attempts[pod.worker.job_uid] = (attempt, taken)

    def disruptions_of(self, job_uid: str) -> Mapping[str, Disruption]:
        """By name of the pod."""
        return self._attempts[job_uid][1] if job_uid in self._attempts else _NONE

    def forget(self, job_uid: str) -> None:
        self._attempts.pop(job_uid, None)
