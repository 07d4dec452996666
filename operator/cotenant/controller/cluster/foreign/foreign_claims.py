"""ResourceClaims of others, in the form of the core: jobs of no queue that hold GPUs and are never evicted. Pure.

The kube-scheduler has handed these GPUs out, so the ledger subtracts them before it decides. Their holder counts as
another tenant: the rest of such a GPU is shared by the same rules as with any other queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cotenant.api.conversion.device_claims import AllocatedClaim, device_name
from cotenant.controller.cluster.foreign.foreign_holder import foreign_holder
from cotenant.core.model.objects import WHOLE, Gpu, GpuRequest, GrantedGpu, Job, JobKey, Node, Sharing

SUFFIX: Final = "#claim"
"""End of the keys that stand for claims. No job's name can contain it."""


def claim_key(key: str) -> JobKey:
    """The core's key of the claim `namespace/name`."""
    return f"{key}{SUFFIX}"


def is_claim(key: JobKey) -> bool:
    return key.endswith(SUFFIX)


def claim_holder(claim: AllocatedClaim, nodes: Mapping[str, Node]) -> Job | None:
    """The job that stands for a claim; None if the claim holds no GPU that a GPUNode lists."""
    pools = sorted({device.pool for device in claim.devices})
    held = [(name, grants) for name in pools if (grants := _held_on(claim, nodes.get(name)))]
    if not held:
        return None
    key = claim_key(f"{claim.namespace}/{claim.name}")
    return foreign_holder(key, claim.uid, GpuRequest(sharing=Sharing.ANY), held, claim.namespace)


def _held_on(claim: AllocatedClaim, node: Node | None) -> tuple[GrantedGpu, ...]:
    """Amounts summed by GPU: several requests of one claim may share a GPU."""
    if node is None or node.deleted:
        return ()
    listed: dict[str, Gpu] = {device_name(gpu.uuid): gpu for gpu in node.gpus if gpu.missing_since is None}
    amounts: dict[str, tuple[int, int]] = {}
    for device in claim.devices:
        gpu = listed.get(device.device)
        if gpu is None or device.pool != node.name:
            continue
        memory, compute = amounts.get(gpu.uuid, (0, 0))
        memory += gpu.memory_mib if device.memory_mib is None else device.memory_mib
        compute += WHOLE if device.compute_milli is None else device.compute_milli
        amounts[gpu.uuid] = memory, compute
    return tuple(
        GrantedGpu(uuid=uuid, memory_mib=memory, compute_milli=compute)
        for uuid, (memory, compute) in sorted(amounts.items())
    )
