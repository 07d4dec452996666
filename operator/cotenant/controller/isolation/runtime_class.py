"""Path A: the NVIDIA runtime gives a container the named GPUs, memory limits are cooperative, the agent watches. Pure.

On a node whose GPUs are simulated only their names are handed out, and nothing is enforced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.client.kube import Document
from cotenant.controller.isolation.gpu_isolation import (
    STRENGTH,
    NodeIsolation,
    PodEvidence,
    Rendered,
    Verification,
    memory_by_gpu,
    uuids_of,
    with_env,
)
from cotenant.core.model.objects import NodePlacement

DRIVER_CAPABILITIES: Final = "compute,utility"


@dataclass(frozen=True, slots=True)
class RuntimeClassPath:
    node: NodeIsolation
    runtime_class: str

    def render(self, placement: NodePlacement, pod: Document) -> Rendered:
        uuids = ",".join(uuids_of(placement))
        if self.node.simulated:
            return Rendered(with_env(pod, {"CUDA_VISIBLE_DEVICES": uuids}))
        made = with_env(
            pod,
            {
                "CUDA_VISIBLE_DEVICES": uuids,
                "NVIDIA_VISIBLE_DEVICES": uuids,
                "NVIDIA_DRIVER_CAPABILITIES": DRIVER_CAPABILITIES,
            },
        )
        return Rendered(made | {"spec": made["spec"] | {"runtimeClassName": self.runtime_class}})

    def verify(self, placement: NodePlacement, evidence: PodEvidence) -> Verification:
        """`Watched` at best: nothing stops a program before the agent has seen what it uses. Nothing is watched on a
        GPU whose memory the driver does not show.
        """
        if wrong := self._misplaced(placement, evidence):
            return Verification(mismatch=wrong, node=placement.node)
        unknown = 0 in memory_by_gpu(placement).values()
        reached = (
            Isolation.NONE
            if self.node.simulated or unknown
            else min(self.node.best, Isolation.WATCHED, key=STRENGTH.index)
        )
        return Verification(levels=IsolationLevels(memory=reached))

    def _misplaced(self, placement: NodePlacement, evidence: PodEvidence) -> str:
        """A rank that sees other GPUs than it was granted: a message that names it, or empty."""
        of_pod = set(uuids_of(placement))
        for rank in placement.ranks:
            seen = evidence.seen.get(str(rank.rank))
            if seen is None or (not seen and self.node.simulated):
                continue  # not reported yet, or no real GPU that could be seen
            granted = {grant.uuid for grant in rank.gpus}
            if not granted <= set(seen) <= of_pod:
                visible, given = ", ".join(sorted(seen)) or "no GPU", ", ".join(sorted(granted))
                return f"rank {rank.rank} on node {placement.node} sees {visible} but was granted {given}"
        return ""
