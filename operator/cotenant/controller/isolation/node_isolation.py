"""What one node can do to keep pods apart on its GPUs, and the GPUs of one pod as sums. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.api.resources.gpunodes import GPUNode, IsolationPath
from cotenant.api.resources.placement_status import Isolation
from cotenant.core.model.objects import NodePlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIsolation:
    """Means of one node to keep pods apart, as its agent reports them."""

    simulated: bool
    best: Isolation
    """Level of memory that its ordinary path reaches."""
    available: frozenset[str] = frozenset()
    """Names of the paths whose capability it has (`IsolationPath`)."""
    memory_mib: Mapping[str, int] = field(default_factory=dict)
    """GPU UUID → its memory."""
    instances: frozenset[str] = frozenset()
    """UUIDs of MIG instances among them."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """UUID → extended resource of devices of other makers, also if its agent is silent."""


def reported_isolation(node: GPUNode | None, resources: Mapping[str, str], *, claims: bool = True) -> NodeIsolation:
    """Means of a node by its agent's last report. Without `claims`, ResourceClaims are switched off, although the agent
    may still offer GPUs for them.
    """
    if node is None:  # it has real GPUs, and nobody watches them
        return NodeIsolation(simulated=False, best=Isolation.COOPERATIVE, resources=resources)
    status, off = node.status, set() if claims else {IsolationPath.DEVICE_CLAIM, IsolationPath.MPS_NAMESPACE}
    return NodeIsolation(
        simulated=status.simulated,
        best=status.isolation,
        available=frozenset(one.path for one in status.capabilities.paths if one.available) - off,
        memory_mib={gpu.uuid: gpu.memory_mib for gpu in status.gpus},
        instances=frozenset(gpu.uuid for gpu in status.gpus if gpu.parent),
        resources=resources,
    )


def amounts_by_gpu(placement: NodePlacement) -> dict[str, tuple[int, int]]:
    """GPU UUID → MiB and milli-GPU that all ranks of the pod may use of it together, in the order of the ranks."""
    amounts: dict[str, tuple[int, int]] = {}
    for rank in placement.ranks:
        for gpu in rank.gpus:
            memory, compute = amounts.get(gpu.uuid, (0, 0))
            amounts[gpu.uuid] = (memory + gpu.memory_mib, compute + gpu.compute_milli)
    return amounts
