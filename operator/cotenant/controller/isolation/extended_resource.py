"""Devices of other makers: the kubelet gives a pod as many as it requests, by the maker's device plugin. Pure.

The plugin puts whole devices into the container, and the kubelet chooses which. The ledger, the kube-scheduler and the
kubelet all count them. A program does not see the names that the ledger knows, so nothing is compared, and the only
level claimed is that a container has devices of its own. CUDA_VISIBLE_DEVICES is never set: AMD's runtime obeys it too,
and would show no device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.client.kube import Document
from cotenant.controller.isolation.gpu_isolation import (
    STRENGTH,
    PathAround,
    PodEvidence,
    Rendered,
    Verification,
    uuids_of,
    with_extended_resources,
)
from cotenant.core.model.objects import NodePlacement


@dataclass(frozen=True, slots=True)
class ExtendedResourcePath(PathAround):
    """Path for placements on devices with an extended resource. All others go to the inner path."""

    resources: Mapping[str, str]
    """UUID → extended resource of devices that have one, also on a node whose agent is silent."""

    def render(self, placement: NodePlacement, pod: Document) -> Rendered:
        asked = self._asked(placement)
        if not asked:
            return self.inner.render(placement, pod)
        return Rendered(with_extended_resources(pod, asked))

    def verify(self, placement: NodePlacement, evidence: PodEvidence) -> Verification:
        if not self._asked(placement):
            return self.inner.verify(placement, evidence)
        reached = min(self.node.best, Isolation.COOPERATIVE, key=STRENGTH.index)
        return Verification(levels=IsolationLevels(memory=reached))

    def _asked(self, placement: NodePlacement) -> dict[str, str]:
        """Extended resource → number, for the requests of the pod."""
        found = Counter(self.resources[uuid] for uuid in uuids_of(placement) if uuid in self.resources)
        return {name: str(number) for name, number in found.items()}
