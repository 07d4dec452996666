"""The paths of one node, strongest last, and what a whole placement amounts to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from cotenant.api.resources.gpunodes import GPUNode, IsolationPath
from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.isolation.device_claim import DeviceClaimPath
from cotenant.controller.isolation.device_plugin import DevicePluginPath
from cotenant.controller.isolation.extended_resource import ExtendedResourcePath
from cotenant.controller.isolation.gpu_isolation import GpuIsolation, NodeIsolation, PodEvidence, Verification, weakest
from cotenant.controller.isolation.memory_limit import MemoryLimitPath
from cotenant.controller.isolation.mig_instance import MigInstancePath
from cotenant.controller.isolation.mps_namespace import MpsNamespacePath
from cotenant.controller.isolation.runtime_class import RuntimeClassPath
from cotenant.core.model.objects import NodePlacement

UNREPORTED = NodeIsolation(simulated=False, best=Isolation.COOPERATIVE)
"""A node without an agent is taken for one with real GPUs that nobody watches."""


def node_isolation(node: GPUNode | None) -> NodeIsolation:
    if node is None:
        return UNREPORTED
    status = node.status
    return NodeIsolation(
        simulated=status.simulated,
        best=status.isolation,
        available=frozenset(one.path for one in status.capabilities.paths if one.available),
        memory_mib={gpu.uuid: gpu.memory_mib for gpu in status.gpus},
        instances=frozenset(gpu.uuid for gpu in status.gpus if gpu.parent),
    )


def without_claims(node: NodeIsolation) -> NodeIsolation:
    """The node as it is where ResourceClaims were switched off, while its agent may still offer its GPUs for them."""
    of_claims = {IsolationPath.DEVICE_CLAIM, IsolationPath.MPS_NAMESPACE}
    return replace(node, available=node.available - of_claims)


def isolation_on(
    node: NodeIsolation, runtime_class: str, resources: Mapping[str, str] = MappingProxyType({})
) -> GpuIsolation:
    """Every path, one around the other: each renders where the node has what it requires, and claims on evidence.

    So a pod that was made while a node could more, or less, than now is judged by what is found of it. `resources`:
    UUID → extended resource, of devices that the kubelet hands out.
    """
    limited = MemoryLimitPath(RuntimeClassPath(node, runtime_class), node)
    counted = DevicePluginPath(MigInstancePath(limited, node), node)
    claimed = MpsNamespacePath(DeviceClaimPath(counted, node), node)
    return ExtendedResourcePath(claimed, node, resources)


def verify_all(found: Iterable[tuple[NodePlacement, GpuIsolation, PodEvidence]]) -> Verification:
    """Verify a whole placement: the first contradiction, or the weakest level in each dimension."""
    judged = [path.verify(placement, evidence) for placement, path, evidence in found]
    wrong = next((one for one in judged if one.mismatch), None)
    return wrong or Verification(levels=weakest(one.levels for one in judged))


def evidence_of(node: GPUNode | None, pod_uid: str, seen: Mapping[str, Sequence[str]]) -> PodEvidence:
    """Evidence of one pod: by its ranks, and by the agent of its node; no uid where it is not there yet."""
    limits = tuple(one for one in node.status.limits if one.pod_uid == pod_uid) if node and pod_uid else ()
    return PodEvidence(seen=seen, limits=limits)
