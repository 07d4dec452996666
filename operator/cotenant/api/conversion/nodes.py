"""The core's view of a node, from its GPUNode (by the agent) and its Node (by the kubelet).

GPUs come from the agent, capacity and readiness from the kubelet. Requests of pods that belong to no job
(`pod_requests`) are subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant import names
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.gpunodes import GPUNode, GpuStatus
from cotenant.api.scalars.quantities import amount_or_0
from cotenant.core.model import objects as core

Document = Mapping[str, Any]
DRIVER_IS_EXCHANGED = frozenset(
    {
        "node-maintenance-required",
        "cordon-required",
        "wait-for-jobs-required",
        "pod-deletion-required",
        "drain-required",
        "pod-restart-required",
    }
)
"""States of a driver upgrade, from the cordon to the start of the new driver."""
MIG_IS_CHANGED = frozenset({"pending", "rebooting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Fields of a v1 Node that placement needs."""

    name: str
    cpu_milli: int
    """Allocatable."""
    memory_mib: int
    pods: int = core.MANY_PODS
    """Allocatable: the number of pods that its kubelet accepts."""
    scratch_mib: int = core.MUCH_SCRATCH
    """Allocatable ephemeral storage. 0 if its kubelet counts none: such a node takes no pod that requests some."""
    zone: str = ""
    rack: str = ""
    ready: bool = True
    """True if it is ready and not cordoned."""
    unready_because: str = ""
    shared_by_queues: bool = False
    drained_by: str = ""
    """Why all GPUs of the node have to be left; empty if they do not."""
    gpu_class: str = ""
    """From the node's label, if the administrator named the class; overrides the agent's."""


def to_node_facts(document: Document) -> NodeFacts:
    """Facts of a v1 Node; amounts that cannot be parsed count as 0."""
    metadata, spec, status = (document.get(part) or {} for part in ("metadata", "spec", "status"))
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    allocatable = status.get("allocatable") or {}
    conditions = {condition.get("type"): condition.get("status") for condition in status.get("conditions") or ()}
    why = "not Ready" if conditions.get("Ready") != "True" else "cordoned" if spec.get("unschedulable", False) else ""
    drained_by = taken_by_the_gpu_operator(labels)
    return NodeFacts(
        name=metadata.get("name", ""),
        cpu_milli=amount_or_0(allocatable.get("cpu", 0), scale=1000),
        memory_mib=amount_or_0(allocatable.get("memory", 0)) // 2**20,
        pods=amount_or_0(allocatable["pods"]) if "pods" in allocatable else core.MANY_PODS,
        scratch_mib=amount_or_0(allocatable.get("ephemeral-storage", 0)) // 2**20,
        zone=labels.get(names.LABEL_ZONE, ""),
        rack=labels.get(names.LABEL_RACK, ""),
        ready=not why and not drained_by,
        unready_because=why or drained_by,
        drained_by=drained_by,
        shared_by_queues=annotations.get(names.ANNOTATION_SHARED_BY_QUEUES) == "true",
        gpu_class=labels.get(names.LABEL_GPU_CLASS, ""),
    )


def taken_by_the_gpu_operator(labels: Mapping[str, str]) -> str:
    """Why NVIDIA's GPU Operator needs all programs off the node's GPUs; empty if it does not.

    It sees no GPU in the requests of jobs' pods, so it ends none of them itself.
    """
    state = labels.get(names.LABEL_DRIVER_UPGRADE, "")
    if state in DRIVER_IS_EXCHANGED:
        return f"the GPU Operator exchanges its driver ({names.LABEL_DRIVER_UPGRADE}={state})"
    state = labels.get(names.LABEL_MIG_STATE, "")
    if state in MIG_IS_CHANGED:
        return f"the GPU Operator changes its MIG layout ({names.LABEL_MIG_STATE}={state})"
    return ""


def to_node(
    gpunode: GPUNode,
    facts: NodeFacts,
    *,
    now: float,
    cpu_used: int = 0,
    memory_used: int = 0,
    scratch_used: int = 0,
    pods_used: int = 0,
) -> core.Node:
    """The node at `now`, Unix seconds. `cpu_used` (milli-CPU), `memory_used` and `scratch_used` (MiB) are requests of
    `pods_used` other pods.
    """
    beat = unix_seconds(gpunode.status.heartbeat)
    return core.Node(
        name=facts.name,
        gpus=tuple(_gpu(gpu, facts.gpu_class) for gpu in gpunode.status.gpus),
        cpu_milli=max(0, facts.cpu_milli - cpu_used),
        memory_mib=max(0, facts.memory_mib - memory_used),
        pods=max(0, facts.pods - pods_used),
        scratch_mib=max(0, facts.scratch_mib - scratch_used),
        zone=facts.zone,
        rack=facts.rack,
        ready=facts.ready and beat is not None and now - beat <= gpunode.status.stale_after_s,
        unready_because=facts.unready_because,
        shared_by_queues=facts.shared_by_queues,
    )


def _gpu(gpu: GpuStatus, named: str) -> core.Gpu:
    return core.Gpu(
        uuid=gpu.uuid,
        gpu_class=gpu.gpu_class
        if gpu.parent
        else named or gpu.gpu_class,  # an instance has its GPU's, with its profile
        memory_mib=gpu.memory_mib,
        index=gpu.index,
        healthy=gpu.healthy,
        peers=frozenset(gpu.peers),
        whole_only=gpu.whole_only or bool(gpu.resource) or gpu.memory_mib == 0,  # of unknown memory there is no share
        resource=gpu.resource,
        suspect=gpu.healthy and gpu.health.startswith(names.HEALTH_SLOW),
    )
