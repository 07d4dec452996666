"""Shares of each GPU that pods may take, from a view of the node. Pure.

Some pods hold GPUs without requesting shares: they were made before the node offered any, or they use claims. Others
still run although the kubelet knows no object of them. What they hold is held back, so the kubelet's sum is never less
than what is in use. A GPU that must not be handed out has no healthy share: its pods stay, and no new pod gets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.api.conversion import device_shares
from cotenant.api.conversion.device_shares import COMPUTE, MEMORY, WHOLE
from cotenant_agent.enforcement.gpu_holders import Evidence, GpuHolder
from cotenant_agent.gpus.readings import Gpu
from cotenant_agent.reports.node_status import unhealthy_reason
from cotenant_agent.reports.node_view import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedShares:
    """One resource: one dimension (memory or compute) of one GPU, in thousandths."""

    resource: str
    gpu: Gpu
    dimension: str
    healthy: int


def offered(view: NodeView) -> tuple[OfferedShares, ...] | None:
    """The shares; None until the holders are known. A GPU with MIG instances is not offered; its instances are."""
    if view.holders is None:
        return None
    uncounted = [holder for holder in view.holders.values() if not is_counted(holder)]
    found = []
    for gpu in sorted(view.inventory.gpus, key=lambda one: (one.index, one.uuid)):
        if gpu.mig:
            continue
        ill = bool(unhealthy_reason(view, gpu))
        for dimension, held in ((MEMORY, held_memory(uncounted, gpu)), (COMPUTE, held_compute(uncounted, gpu))):
            found.append(
                OfferedShares(
                    resource=device_shares.share_resource(gpu.uuid, dimension),
                    gpu=gpu,
                    dimension=dimension,
                    healthy=0 if ill else max(0, WHOLE - held),
                )
            )
    return tuple(found)


def is_counted(holder: GpuHolder) -> bool:
    """True if the kubelet counts what this pod holds. A pod without an object has given its devices back to the
    kubelet.
    """
    return holder.grant.requests_shares and holder.evidence is Evidence.POD


def held_memory(holders: Iterable[GpuHolder], gpu: Gpu) -> int:
    grants = (holder.grant.quota_mib.get(gpu.uuid) for holder in holders)
    return sum(device_shares.memory_shares(mib, gpu.memory_mib) for mib in grants if mib is not None)


def held_compute(holders: Iterable[GpuHolder], gpu: Gpu) -> int:
    return sum(
        device_shares.compute_shares(holder.grant.compute_milli.get(gpu.uuid, 0))
        for holder in holders
        if gpu.uuid in holder.grant.quota_mib
    )
