"""Shares of each GPU that pods may take, from a view of the node. Pure.

What pods hold that request no shares (made before the node offered any, or by claims) is held back, and what pods still
hold of whose objects the kubelet knows nothing any more. So the kubelet's sum is never less than what is in use. A GPU
that is not to be handed out has no healthy share: who is on it stays, nothing new comes to it.
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
    """One resource: a dimension of one GPU, in thousandths."""

    resource: str
    gpu: Gpu
    dimension: str
    healthy: int


def offered(view: NodeView) -> tuple[OfferedShares, ...] | None:
    """None while it is not known who holds what. A GPU that is partitioned by MIG is not offered, its instances are."""
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
    """True if the kubelet counts what this pod holds: a pod without an object has given its devices back there."""
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
