"""Pods by job, and what those that no placement covers have requested of each node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from cotenant.controller.informers.deleted_pods import DeletedPods
from cotenant.controller.informers.disruption import Disruption
from cotenant.controller.informers.pod_record import NodeLoad, PodRecord

_NONE: Mapping[str, PodRecord] = MappingProxyType({})


class PodIndex:
    """One writer, the object cache."""

    def __init__(self) -> None:
        self.load: dict[str, NodeLoad] = {}
        """Node → what pods have requested there that no placement covers."""
        self._by_key: dict[str, PodRecord] = {}
        """`namespace/name` → pod, of ours or of others."""
        self._of_job: dict[str, dict[str, PodRecord]] = {}
        """Uid of the job → name → pod."""
        self._deleted = DeletedPods()

    def of_job(self, job_uid: str) -> Mapping[str, PodRecord]:
        """Name → pod of ours."""
        return self._of_job.get(job_uid, _NONE)

    def ours(self) -> Iterator[PodRecord]:
        """The pods of all jobs."""
        return (pod for pods in self._of_job.values() for pod in pods.values())

    def disruptions_of(self, job_uid: str) -> Mapping[str, Disruption]:
        """Disruptions of pods of the newest attempt that are not there any more, by name of the pod."""
        return self._deleted.disruptions_of(job_uid)

    def put(self, key: str, pod: PodRecord) -> Iterable[PodRecord]:
        """Returns the pods that this changes something for: this one, and what was known under its name."""
        replaced = self.drop(key)
        self._by_key[key] = pod
        if pod.worker is not None:
            self._of_job.setdefault(pod.worker.job.uid, {})[pod.name] = pod
        self._count(pod, 1)
        return (*replaced, pod)

    def drop(self, key: str) -> Iterable[PodRecord]:
        pod = self._by_key.pop(key, None)
        if pod is None:
            return ()
        self._count(pod, -1)
        if pod.worker is not None:
            siblings = self._of_job[pod.worker.job.uid]
            siblings.pop(pod.name, None)
            if not siblings:
                del self._of_job[pod.worker.job.uid]
        return (pod,)

    def note_deletion(self, pod: PodRecord) -> None:
        """Keep why it went, from the last that was seen of it."""
        self._deleted.record(pod)

    def forget_job(self, job_uid: str) -> None:
        self._deleted.forget(job_uid)

    def _count(self, pod: PodRecord, sign: int) -> None:
        if counts_as_load(pod):
            self.load.setdefault(pod.node, NodeLoad()).add(pod, sign)


def counts_as_load(pod: PodRecord) -> bool:
    """It takes CPU and memory of its node, and no placement covers it: a pod of others, or a parameter server."""
    return (pod.worker is None or pod.worker.server) and bool(pod.node) and pod.held
