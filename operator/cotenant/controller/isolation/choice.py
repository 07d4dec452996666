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
"""Assumed for a node without an agent: it has real GPUs, and nobody watches them."""


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
    """The node without ResourceClaims, because they are switched off, even if its agent still offers GPUs for them."""
    of_claims = {IsolationPath.DEVICE_CLAIM, IsolationPath.MPS_NAMESPACE}
    return replace(node, available=node.available - of_claims)


def isolation_on(
    node: NodeIsolation, runtime_class: str, resources: Mapping[str, str] = MappingProxyType({})
) -> GpuIsolation:
    """All paths, nested. Each renders if the node has what it requires, and claims a level on evidence alone.

    So a pod is judged by what is found of it, even if its node could do more or less when the pod was made. `resources`
    maps the UUID of devices that the kubelet hands out to their extended resource.
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
    """Evidence of one pod, from its ranks and its node's agent. The uid is empty if the pod does not exist yet."""
    limits = tuple(one for one in node.status.limits if one.pod_uid == pod_uid) if node and pod_uid else ()
    return PodEvidence(seen=seen, limits=limits)
