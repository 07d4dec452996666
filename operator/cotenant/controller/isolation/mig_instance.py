"""MIG: the hardware keeps the instances of a GPU apart, in memory and in compute. Pure.

An instance gets into a pod like a GPU, by its UUID. The level is claimed once every rank has seen exactly its own
instances inside the container. Shares of one instance are separated from other instances, but not from each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.isolation.gpu_isolation import (
    PathAround,
    PodEvidence,
    Verification,
    memory_by_gpu,
)
from cotenant.core.model.objects import NodePlacement

HARD = IsolationLevels(memory=Isolation.HARD, compute=Isolation.HARD)


@dataclass(frozen=True, slots=True)
class MigInstancePath(PathAround):
    def verify(self, placement: NodePlacement, evidence: PodEvidence) -> Verification:
        found = self.inner.verify(placement, evidence)
        counted = all(evidence.seen.get(str(rank.rank)) for rank in placement.ranks)
        if found.mismatch or self.node.simulated or not counted or not self._whole_instances(placement):
            return found
        return Verification(levels=HARD)

    def _whole_instances(self, placement: NodePlacement) -> bool:
        """True if the pod has each of its GPUs whole, and each is a MIG instance."""
        return all(
            uuid in self.node.instances and mib >= self.node.memory_mib.get(uuid, mib + 1)
            for uuid, mib in memory_by_gpu(placement).items()
        )
