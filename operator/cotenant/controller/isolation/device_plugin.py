"""Path B: the pod requests shares of exactly the GPUs that the ledger chose, and the kubelet counts them. Pure.

If the ledger is wrong, the kube-scheduler does not bind the pod, or its kubelet refuses it
(`UnexpectedAdmissionError`), and the gang is placed anew. A node that counts ResourceClaims uses these alone. Other
paths enforce how much of its share a program may use.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.api.conversion import device_shares
from cotenant.api.resources.gpunodes import IsolationPath
from cotenant.controller.client.kube import Document
from cotenant.controller.isolation.gpu_isolation import (
    PathAround,
    Rendered,
    amounts_by_gpu,
    with_extended_resources,
)
from cotenant.core.model.objects import NodePlacement


@dataclass(frozen=True, slots=True)
class DevicePluginPath(PathAround):
    def render(self, placement: NodePlacement, pod: Document) -> Rendered:
        made = self.inner.render(placement, pod)
        available = self.node.available
        if IsolationPath.DEVICE_PLUGIN not in available or IsolationPath.DEVICE_CLAIM in available:
            return made
        return Rendered(with_extended_resources(made.pod, self._shares(placement)), made.side_objects)

    def _shares(self, placement: NodePlacement) -> dict[str, str]:
        found: dict[str, str] = {}
        for uuid, (mib, compute) in amounts_by_gpu(placement).items():
            found |= device_shares.requests(uuid, (mib, self.node.memory_mib.get(uuid, mib)), compute)
        return found
