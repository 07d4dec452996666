"""Pods that may hold GPUs although no Pod object shows it, known from their last state and from agents' reports.

If the kubelet has ended a pod, the pod is over, and its object may go. If the object goes earlier (deleted by force),
the pod holds its GPUs until the agent of its node no longer names it. A silent or missing agent proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant.api.resources.gpunodes import Evidence, GpuHolder
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pods.pod_identity import PodIdentity
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.core.model.objects import GrantedGpu, NodePlacement, RankPlacement

HEARD_S = 5.0
"""After this long, an agent report that omits the pod means that the pod is gone."""


@dataclass(frozen=True, slots=True)
class _Reported:
    pod: PodRecord
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class _Departed:
    pod: PodRecord
    at: float
    named: bool
    """True if the agent has named the pod. The first report without it then means that the pod is gone."""


class DepartedPods:
    """Pods that are gone, until agents confirm it. Only the object cache writes here. Times are Unix seconds."""

    def __init__(self) -> None:
        self._reported: dict[str, dict[str, _Reported]] = {}
        """Node whose agent reports holders → pod uid → what the agent reports."""
        self._of_job: dict[JobId, dict[str, str]] = {}
        """Job → uid of a reported pod → its node."""
        self._departed: dict[str, _Departed] = {}
        """Uid → pod whose object was deleted while it ran."""
        self._ended: dict[str, str] = {}
        """Uid → node of a pod that its kubelet had ended and whose object is gone. Kept until the agent no longer names
        it.
        """

    def note_departure(self, pod: PodRecord, now: float) -> None:
        """The object of this pod was deleted. `pod` is its last state."""
        if pod.worker is None or pod.worker.placement is None or pod.node not in self._reported:
            return
        named = pod.uid in self._reported[pod.node]
        if pod.held:
            self._departed[pod.uid] = _Departed(pod, now, named)
        elif named and ended_by_kubelet(pod):
            self._ended[pod.uid] = pod.node

    def report(self, node: str, holders: Iterable[GpuHolder] | None, now: float) -> set[JobId]:
        """Take in an agent's report on its node. Returns the jobs that it affects.

        `None` stands for an agent that does not look for holders; only the API server's objects count there.
        """
        before = self._reported.pop(node, {})
        here = {uid: one for uid, one in self._departed.items() if one.pod.node == node}
        after = {} if holders is None else {one.pod_uid: _reported(one, node) for one in holders}
        if holders is not None:
            self._reported[node] = after
        self._index(node, before, after)
        changed = {uid for uid in before.keys() | after.keys() if before.get(uid) != after.get(uid)}
        for uid, one in here.items():
            if uid in after:
                self._departed[uid] = _Departed(one.pod, one.at, named=True)
            elif one.named or now - one.at >= HEARD_S or holders is None:
                del self._departed[uid]
                changed.add(uid)
        self._ended = {uid: where for uid, where in self._ended.items() if where != node or uid in after}
        return {_job(side[uid].pod) for uid in changed for side in (before, after, here) if uid in side}

    def forget_node(self, node: str) -> set[JobId]:
        """The node is gone. Nothing that was on it counts any more."""
        return self.report(node, None, 0.0)

    def of_job(self, job: JobId, present: Mapping[str, PodRecord]) -> list[PodRecord]:
        """Pods of the job that hold GPUs and have no object. `present` are the pods with an object, by uid."""
        found = {uid: one.pod for uid, one in self._departed.items() if _job(one.pod) == job}
        for uid, node in self._of_job.get(job, {}).items():
            reported = self._reported[node][uid]
            if not self._is_over(uid, reported, present.get(uid)):
                found.setdefault(uid, reported.pod)
        return [pod for uid, pod in sorted(found.items()) if uid not in present or not present[uid].held]

    def jobs(self) -> set[JobId]:
        """Jobs with such pods."""
        return {_job(one.pod) for one in self._departed.values()} | set(self._of_job)

    def _index(self, node: str, before: Mapping[str, _Reported], after: Mapping[str, _Reported]) -> None:
        for uid, one in before.items():
            of_job = self._of_job.get(_job(one.pod), {})
            if of_job.get(uid) == node:
                del of_job[uid]
            if not of_job:
                self._of_job.pop(_job(one.pod), None)
        for uid, one in after.items():
            self._of_job.setdefault(_job(one.pod), {})[uid] = node

    def _is_over(self, uid: str, reported: _Reported, pod: PodRecord | None) -> bool:
        """True if the kubelet's report of the end is newer than the agent's report that the pod is bound."""
        over = uid in self._ended or (pod is not None and ended_by_kubelet(pod))
        return over and reported.evidence is Evidence.POD


def ended_by_kubelet(pod: PodRecord) -> bool:
    """True if the kubelet itself saw the container end. Others may write that a pod failed, too."""
    return pod.exit is not None and pod.exit.code != -1


def _job(pod: PodRecord) -> JobId:
    assert pod.worker is not None
    return pod.worker.job


def _reported(holder: GpuHolder, node: str) -> _Reported:
    gpus = tuple(
        GrantedGpu(uuid=gpu.uuid, memory_mib=gpu.memory_mib, compute_milli=gpu.compute_milli) for gpu in holder.gpus
    )
    placement = NodePlacement(node=node, ranks=(RankPlacement(rank=0, gpus=gpus),))
    identity = PodIdentity(
        job=JobId(holder.namespace, holder.job, holder.job_uid),
        attempt=holder.attempt,
        node_rank=holder.node_rank,
        placement=placement,
    )
    pod = PodRecord(
        namespace=holder.namespace, name=holder.pod, uid=holder.pod_uid, version=0, worker=identity, node=node
    )
    return _Reported(pod, holder.evidence)
