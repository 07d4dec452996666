"""Judges what was found of a pod since it was made: which level is enforced, or what contradicts its grant. Pure.

A level is claimed on evidence alone: on what a node's agent has read back, never on what was asked for. So a pod is
judged by what is found of it, even if its node could do more or less when the pod was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cotenant.api.resources.gpunodes import DeviceLimit, Dimension, GPUNode, LimitState
from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.isolation.node_isolation import NodeIsolation, amounts_by_gpu
from cotenant.controller.isolation.rendering import asked_devices
from cotenant.core.model.objects import NodePlacement

STRENGTH: Final = tuple(Isolation)
"""Weakest first. In each dimension, a job's published level is the weakest of its nodes."""
NOTHING: Final = IsolationLevels()
HARD: Final = IsolationLevels(memory=Isolation.HARD, compute=Isolation.HARD)
PAGE_MIB: Final = 2
"""Largest page of GPU memory: by less than this a driver may round a limit."""
STEP_MILLI: Final = 10
"""MPS counts in percents: by less than this a ceiling differs from its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvidence:
    """Findings about one pod since it was made."""

    seen: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Rank → UUIDs that it sees inside the container. It may see the GPUs of other ranks in its pod: the container is
    the boundary, as with torchrun.
    """
    limits: tuple[DeviceLimit, ...] = ()
    """Read back from the driver by the agent of its node."""

    def of(self, dimension: Dimension) -> Mapping[str, DeviceLimit]:
        """GPU UUID → limit."""
        return {limit.uuid: limit for limit in self.limits if limit.dimension is dimension}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Levels that are enforced on one pod, or the contradiction to what was rendered."""

    levels: IsolationLevels = NOTHING
    mismatch: str = ""
    """Contradiction to the placement, which names the rank or the GPU; empty if there is none."""
    node: str | None = None
    """Of the mismatch."""


UNVERIFIED: Final = Verification()


def evidence_of(node: GPUNode | None, pod_uid: str, seen: Mapping[str, Sequence[str]]) -> PodEvidence:
    """Evidence of one pod, from its ranks and its node's agent. The uid is empty if the pod does not exist yet."""
    limits = tuple(one for one in node.status.limits if one.pod_uid == pod_uid) if node and pod_uid else ()
    return PodEvidence(seen=seen, limits=limits)


def verified(placement: NodePlacement, node: NodeIsolation, evidence: PodEvidence) -> Verification:
    """The levels of one pod; without evidence, those that hold in any case."""
    if asked_devices(placement, node):
        # The kubelet has chosen the devices, and a program does not see the names that the ledger knows. All that is
        # claimed is that the container has devices of its own.
        return Verification(levels=IsolationLevels(memory=min(node.best, Isolation.COOPERATIVE, key=STRENGTH.index)))
    if wrong := _misplaced(placement, node, evidence) or _wrong_limit(placement, evidence):
        return Verification(mismatch=wrong, node=placement.node)
    if node.simulated:
        return Verification()
    if _is_on_own_instances(placement, node, evidence):
        return Verification(levels=HARD)
    shares = amounts_by_gpu(placement)
    unknown = any(not memory for memory, _ in shares.values())  # nothing is watched where the driver shows no memory
    levels = {Dimension.MEMORY: Isolation.NONE if unknown else min(node.best, Isolation.WATCHED, key=STRENGTH.index)}
    for dimension in Dimension:
        in_force = {uuid for uuid, one in evidence.of(dimension).items() if one.state is LimitState.IN_FORCE}
        if in_force and in_force >= shares.keys():
            levels[dimension] = Isolation.HARD
    return Verification(levels=IsolationLevels(**{dimension.lower(): level for dimension, level in levels.items()}))


def verified_together(found: Iterable[Verification]) -> Verification:
    """A whole placement: the first contradiction, or the weakest level in each dimension."""
    of_all = list(found)
    if not of_all:
        return UNVERIFIED
    wrong = next((one for one in of_all if one.mismatch), None)
    return wrong or Verification(
        levels=IsolationLevels(
            memory=min((one.levels.memory for one in of_all), key=STRENGTH.index),
            compute=min((one.levels.compute for one in of_all), key=STRENGTH.index),
        )
    )


def _misplaced(placement: NodePlacement, node: NodeIsolation, evidence: PodEvidence) -> str:
    """A rank that sees other GPUs than it was granted: a message that names it, or empty."""
    of_pod = amounts_by_gpu(placement).keys()
    for rank in placement.ranks:
        seen = evidence.seen.get(str(rank.rank))
        if seen is None or (not seen and node.simulated):
            continue  # not reported yet, or no real GPU that could be seen
        granted = {grant.uuid for grant in rank.gpus}
        if not granted <= set(seen) <= of_pod:
            visible, given = ", ".join(sorted(seen)) or "no GPU", ", ".join(sorted(granted))
            return f"rank {rank.rank} on node {placement.node} sees {visible} but was granted {given}"
    return ""


def _wrong_limit(placement: NodePlacement, evidence: PodEvidence) -> str:
    """A limit that differs from its share: a message that names the GPU, or empty. A limit that the agent could not
    read is no contradiction, and is not in force.
    """
    memory, compute = evidence.of(Dimension.MEMORY), evidence.of(Dimension.COMPUTE)
    shares = amounts_by_gpu(placement)
    found = [(uuid, _wrong_memory(memory[uuid], mib)) for uuid, (mib, _) in shares.items() if uuid in memory]
    found += [(uuid, _wrong_compute(compute[uuid], milli)) for uuid, (_, milli) in shares.items() if uuid in compute]
    return next((f"GPU {uuid} of node {placement.node}: {text}" for uuid, text in found if text), "")


def _wrong_memory(limit: DeviceLimit, share_mib: int) -> str:
    if limit.state is LimitState.ABSENT:
        return f"the driver has no memory limit for this pod, its share is {share_mib} MiB"
    if limit.state is LimitState.IN_FORCE and abs((limit.in_force or 0) - share_mib) >= PAGE_MIB:
        return f"the driver limits this pod to {limit.in_force} MiB, its share is {share_mib} MiB"
    return ""


def _wrong_compute(limit: DeviceLimit, share_milli: int) -> str:
    """The agent has to have seen every process of the pod in its MPS namespace, which has the share as ceiling."""
    if limit.state is LimitState.ABSENT:
        return f"MPS does not hold this pod to its share of {share_milli} milli-GPU"
    if limit.state is LimitState.IN_FORCE and abs((limit.in_force or 0) - share_milli) >= STEP_MILLI:
        return f"MPS lets this pod have {limit.in_force} milli-GPU, its share is {share_milli}"
    return ""


def _is_on_own_instances(placement: NodePlacement, node: NodeIsolation, evidence: PodEvidence) -> bool:
    """True if the pod has whole MIG instances alone, and every rank was seen to have exactly its own. The hardware
    keeps instances apart in memory and compute. Shares of one instance are not separated from each other.
    """
    counted = all(evidence.seen.get(str(rank.rank)) for rank in placement.ranks)
    return counted and all(
        uuid in node.instances and memory >= node.memory_mib.get(uuid, memory + 1)
        for uuid, (memory, _) in amounts_by_gpu(placement).items()
    )


def is_lower(now: IsolationLevels, before: IsolationLevels) -> bool:
    """True if a dimension is held less than before."""
    return any(STRENGTH.index(a) < STRENGTH.index(b) for a, b in
               ((now.memory, before.memory), (now.compute, before.compute)))  # fmt: skip
