"""Identity of a pod: its job, attempt, node rank and grant. It is read from the pod's spec, which nobody can edit.
Pure.

Labels, annotations and owner references can be written by anybody who may patch a pod. The contract in the container's
environment cannot: the launcher and the container runtime work by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cotenant import names
from cotenant.contract import Contract, ContractError, PodGrant, Role
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.manifests.attempt import pod_name
from cotenant.core.model.objects import GrantedGpu, NodePlacement, RankPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIdentity:
    """Job, attempt and node rank of a pod, and what it was granted."""

    job: JobId
    attempt: int
    node_rank: int
    placement: NodePlacement | None
    role: Role = Role.WORKER
    """Only a worker has ranks. No placement covers the CPU and memory of the others."""
    cpu_milli: int | None = None
    """CPU that the operator requested for its ranks; None if unknown."""
    scratch_mib: int | None = None
    """Scratch space that its ranks ask for together; None if unknown."""
    has_chief: bool = False
    """True if rank 0 is in it and has CPU, memory and scratch space of its own."""


def identity_of(document: Mapping[str, Any]) -> PodIdentity | None:
    """Identity of a v1 Pod; None unless its contract names this namespace and this pod's name."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    try:
        contract = Contract.from_environment(_launcher_env(spec))
        nodes, servers = len(contract.pods), len(contract.servers)
        named = pod_name(contract.job, contract.attempt, contract.node_rank, nodes=nodes, servers=servers)
        if (contract.namespace, named) != (metadata["namespace"], metadata["name"]):
            return None
        role = contract.role
        grant = contract.pods[contract.node_rank] if role is Role.WORKER else None
        cpu_milli = None if grant is None else _requested_cpu(grant, contract.platform)
        asked = None if grant is None else contract.platform.get("askedScratchMib")
        scratch_mib = None if asked is None else int(asked)
        is_first = grant is not None and any(one.rank == 0 for one in grant.ranks)
        placement = None if grant is None else _placement(grant, spec.get("nodeName") or _wanted_node(spec))
    except (ContractError, IndexError, TypeError, ValueError, RecursionError):
        return None
    return PodIdentity(
        job=JobId(contract.namespace, contract.job, contract.uid),
        attempt=contract.attempt,
        node_rank=contract.node_rank,
        placement=placement,
        role=role,
        cpu_milli=cpu_milli,
        scratch_mib=scratch_mib,
        has_chief=is_first and contract.platform.get("chief") is True,
    )


def _requested_cpu(grant: PodGrant, platform: Mapping[str, Any]) -> int | None:
    """Milli-CPU of the pod's ranks together; a chief asks for an amount of its own."""
    asked = platform.get("cpuMilli")
    if asked is None:
        return None
    return sum(int(platform.get("chiefCpuMilli", asked)) if one.rank == 0 else int(asked) for one in grant.ranks)


def on_node(identity: PodIdentity | None, spec: Mapping[str, Any]) -> PodIdentity | None:
    """Identity of a known pod: its contract cannot change, only the node that it is bound to may be new."""
    if identity is None or identity.placement is None:
        return identity
    node = spec.get("nodeName") or _wanted_node(spec)
    return (
        identity
        if node == identity.placement.node
        else replace(identity, placement=replace(identity.placement, node=node))
    )


def _launcher_env(spec: Mapping[str, Any]) -> dict[str, str]:
    """Literal variables of the worker container. If a name occurs twice, the last one counts."""
    for container in spec.get("containers") or ():
        if container.get("name") == names.CONTAINER:
            return {one["name"]: one.get("value") or "" for one in container.get("env") or () if "valueFrom" not in one}
    return {}


def _placement(grant: PodGrant, node: str) -> NodePlacement:
    return NodePlacement(
        node=node,
        ranks=tuple(
            RankPlacement(
                rank=rank.rank,
                gpus=tuple(
                    GrantedGpu(uuid=gpu.uuid, memory_mib=gpu.memory_mib, compute_milli=gpu.compute_milli)
                    for gpu in rank.gpus
                ),
            )
            for rank in grant.ranks
        ),
    )


def _wanted_node(spec: Mapping[str, Any]) -> str:
    """The only node that its affinity allows; empty if it names none."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""
