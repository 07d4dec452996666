"""Changes of observed objects, noted until the scheduling loop takes them."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field

from cotenant.api.resources.gpunodes import GPUNode
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.pods.pod_index import counts_as_load
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.core.model.lifecycle import Phase


@dataclass(slots=True)
class Changes:
    """What the loop has to look at again."""

    jobs: set[JobId] = field(default_factory=set)
    """Jobs that changed, or whose pods did. The job itself may be gone."""
    nodes: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    """ResourceClaims of others, by namespace and name."""
    queues: bool = False

    def note_pods(self, pods: Iterable[PodRecord]) -> None:
        """Pods came, changed or went. That may change the next step of their jobs, and the free resources of their
        nodes.
        """
        for pod in pods:
            if pod.worker is not None:
                self.jobs.add(pod.worker.job)
            if counts_as_load(pod):
                self.nodes.add(pod.node)

    def note_claim(self, key: str, nodes: Collection[str], jobs: Iterable[JobRecord]) -> None:
        """A ResourceClaim holds other GPUs of these nodes. Jobs that start there may have lost their place to it."""
        if not nodes:
            return
        self.claims.add(key)
        for record in jobs:
            placed = record.placement.nodes if record.placement and record.phase is Phase.STARTING else ()
            if any(part.node in nodes for part in placed):
                self.jobs.add(record.id)

    def note_node(self, name: str, affected: Iterable[PodRecord] = ()) -> None:
        """A node has changed. Jobs with affected pods on it are looked at."""
        self.nodes.add(name)
        self.jobs |= {pod.worker.job for pod in affected if pod.worker and pod.node == name}

    def note_report(
        self, name: str, before: GPUNode | None, seen: GPUNode, pods: Iterable[PodRecord], named: Container[str]
    ) -> None:
        """An agent has reported. Jobs whose pods it names are looked at, or all jobs on its node if the change concerns
        all.
        """
        of_all = before is not None and (
            before.status.isolation is not seen.status.isolation or _drained(before) != _drained(seen)
        )
        self.nodes.add(name)
        noticed = (pod for pod in pods if pod.uid in named or (of_all and pod.node == name))
        self.jobs |= {pod.worker.job for pod in noticed if pod.worker}


def _drained(node: GPUNode) -> frozenset[str]:
    """UUIDs of the GPUs that their tenants have to leave."""
    return frozenset(gpu.uuid for gpu in node.status.gpus if gpu.drain)
