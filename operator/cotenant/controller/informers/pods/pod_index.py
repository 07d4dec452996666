"""Pods by job, and the requests on each node of pods that no placement covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from cotenant.contract import Role
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pods.deleted_pods import DeletedPods
from cotenant.controller.informers.pods.departed_pods import DepartedPods
from cotenant.controller.informers.pods.node_load import NodeLoad
from cotenant.controller.informers.pods.pod_record import PodRecord

_NONE: Mapping[str, PodRecord] = MappingProxyType({})


class PodIndex:
    """One writer, the object cache."""

    def __init__(self) -> None:
        self.load: dict[str, NodeLoad] = {}
        """Node → sum of the requests that no placement covers."""
        self._by_key: dict[str, PodRecord] = {}
        """`namespace/name` → pod, of Cotenant or of others."""
        self._of_job: dict[tuple[str, str], dict[str, PodRecord]] = {}
        """(namespace, uid) of the job → its pods by name."""
        self.departed = DepartedPods()
        self.deleted = DeletedPods()

    def get(self, key: str) -> PodRecord | None:
        return self._by_key.get(key)

    def of_job(self, job: JobId) -> Mapping[str, PodRecord]:
        """Pods of the job by name, in the job's namespace. In other namespaces its uid proves nothing."""
        return self._of_job.get(job.owner, _NONE)

    def holding(self, job: JobId) -> tuple[list[PodRecord], list[PodRecord]]:
        """Pods of the job, including pods without an object that may still hold GPUs."""
        pods = list(self.of_job(job).values())
        departed = self.departed.of_job(job, {pod.uid: pod for pod in pods})
        return pods, [pod for pod in departed if not self._is_of_others(pod)]

    def _is_of_others(self, pod: PodRecord) -> bool:
        """True if an agent reports the pod as a holder, but its object shows that it is not a pod of Cotenant."""
        known = self._by_key.get(f"{pod.namespace}/{pod.name}")
        return known is not None and known.uid == pod.uid and known.worker is None

    def ours(self) -> Iterator[PodRecord]:
        """The pods of all jobs."""
        return (pod for pods in self._of_job.values() for pod in pods.values())

    def put(self, key: str, pod: PodRecord, now: float) -> Iterable[PodRecord]:
        """Store a pod. Returns the pods that this changes: the new one, and the one that had its name before.

        Times here are Unix seconds.
        """
        known = self._by_key.get(key)
        if known is not None and known.uid == pod.uid:
            pod = _with_time(pod, known, now)
        replaced = self._remove(key) if known is not None and known.uid == pod.uid else self.drop(key, now)
        self._by_key[key] = pod
        if pod.worker is not None:
            self._of_job.setdefault(pod.worker.job.owner, {})[pod.name] = pod
        self._count(pod, 1)
        return (*replaced, pod)

    def keep_same(self, key: str, uid: str, now: float) -> Iterable[PodRecord]:
        """Take over what is known under this name if it is the same pod. If not, that pod is gone. Returns what
        changes.
        """
        known = self._by_key.get(key)
        return () if known is None or known.uid == uid else self.drop(key, now)

    def drop(self, key: str, now: float) -> Iterable[PodRecord]:
        """The pod's object was deleted. Whether it still holds GPUs is for its node to say."""
        gone = self._remove(key)
        for pod in gone:
            self.departed.note_departure(pod, now)
        return gone

    def _remove(self, key: str) -> Iterable[PodRecord]:
        pod = self._by_key.pop(key, None)
        if pod is None:
            return ()
        self._count(pod, -1)
        if pod.worker is not None:
            siblings = self._of_job[pod.worker.job.owner]
            del siblings[pod.name]
            if not siblings:
                del self._of_job[pod.worker.job.owner]
        return (pod,)

    def _count(self, pod: PodRecord, sign: int) -> None:
        if counts_as_load(pod):
            self.load.setdefault(pod.node, NodeLoad()).add(pod, sign)


def _with_time(pod: PodRecord, known: PodRecord, now: float) -> PodRecord:
    """The pod with the time since which its kubelet cannot start it. Its status does not have it, and a pull may fail
    for a moment after many minutes.
    """
    if pod.worker is None or not (pod.waiting and pod.node):
        return pod
    return replace(pod, stuck_since=known.stuck_since if known.waiting and known.node else now)


def counts_as_load(pod: PodRecord) -> bool:
    """True if the pod uses CPU, memory or scratch space of its node that no placement covers."""
    uncovered = pod.role is not Role.WORKER or any(pod.added)
    return uncovered and bool(pod.node) and pod.held
