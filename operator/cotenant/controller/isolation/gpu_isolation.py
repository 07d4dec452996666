"""The boundary between a decision and the machinery that keeps pods apart on GPUs. Pure.

A path names the capability of a node that it needs, adds to a pod what makes it work, and judges what has been found of
it since. A level is claimed on evidence alone: on what a node's agent has read back, never on what was asked for.
Paths that only add to another one (a limit on top of the GPUs themselves) hold that one and pass on what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from cotenant.api.resources.gpunodes import DeviceLimit, Dimension, LimitState
from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.controller.client.kube import Document, Resource
from cotenant.core.model.objects import NodePlacement

STRENGTH: Final = tuple(Isolation)
"""Weakest first. In each dimension, a job's published level is the weakest of its nodes."""
NOTHING: Final = IsolationLevels()
SideObjects: TypeAlias = tuple[tuple[Resource, Document], ...]


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


@dataclass(frozen=True, slots=True)
class Rendered:
    pod: Document
    side_objects: SideObjects = ()
    """To be made before the pod. The job owns them."""


class GpuIsolation(Protocol):
    def render(self, placement: NodePlacement, pod: Document) -> Rendered:
        """Add exactly the GPUs of `placement` to the pod, and what keeps it to its share of them."""

    def verify(self, placement: NodePlacement, evidence: PodEvidence) -> Verification:
        """Judge the evidence of a pod, no matter which paths its node has now. Without evidence: what holds in any
        case.
        """


@dataclass(frozen=True, slots=True)
class PathAround:
    """A path that changes what another one does. It adds nothing on a node that lacks what it needs."""

    inner: GpuIsolation
    node: NodeIsolation

    def render(self, placement: NodePlacement, pod: Document) -> Rendered:
        return self.inner.render(placement, pod)

    def verify(self, placement: NodePlacement, evidence: PodEvidence) -> Verification:
        return self.inner.verify(placement, evidence)

    def verify_limits(
        self,
        placement: NodePlacement,
        evidence: PodEvidence,
        dimension: Dimension,
        shares: Mapping[str, int],
        contradiction: Callable[[DeviceLimit, int], str],
    ) -> Verification:
        """`Hard` in this dimension if every GPU of the pod has its limit in force; a mismatch if a limit contradicts
        its share.

        `shares` maps a GPU's UUID to the granted amount. A limit that the agent could not read is no mismatch, and is
        not in force.
        """
        found, limits = self.inner.verify(placement, evidence), evidence.of(dimension)
        if found.mismatch or not limits:
            return found
        for uuid, share in shares.items():
            if (limit := limits.get(uuid)) is not None and (wrong := contradiction(limit, share)):
                text = f"GPU {uuid} of node {placement.node}: {wrong}"
                return Verification(mismatch=text, node=placement.node)
        in_force = all(uuid in limits and limits[uuid].state is LimitState.IN_FORCE for uuid in shares)
        if not in_force or self.node.simulated:
            return found
        return Verification(levels=found.levels.model_copy(update={dimension.lower(): Isolation.HARD}))


def uuids_of(placement: NodePlacement) -> list[str]:
    """List every GPU of one pod once, in the order of its ranks."""
    return list(amounts_by_gpu(placement))


def memory_by_gpu(placement: NodePlacement) -> dict[str, int]:
    """GPU UUID → MiB that all ranks of the pod may use of it together."""
    return {uuid: memory for uuid, (memory, _) in amounts_by_gpu(placement).items()}


def amounts_by_gpu(placement: NodePlacement) -> dict[str, tuple[int, int]]:
    """GPU UUID → MiB and milli-GPU that all ranks of the pod may use of it together."""
    amounts: dict[str, tuple[int, int]] = {}
    for rank in placement.ranks:
        for gpu in rank.gpus:
            memory, compute = amounts.get(gpu.uuid, (0, 0))
            amounts[gpu.uuid] = (memory + gpu.memory_mib, compute + gpu.compute_milli)
    return amounts


def with_env(pod: Document, variables: Mapping[str, str]) -> Document:
    """The pod with these variables of its first container: last, so that they count."""
    container, *others = pod["spec"]["containers"]
    env = [*container["env"], *({"name": name, "value": value} for name, value in variables.items())]
    return pod | {"spec": pod["spec"] | {"containers": [container | {"env": env}, *others]}}


def with_extended_resources(pod: Document, asked: Mapping[str, str]) -> Document:
    """The pod whose first container requests these. The API server wants extended resources with equal limits."""
    container, *others = pod["spec"]["containers"]
    before = container.get("resources", {})
    resources = before | {kind: before.get(kind, {}) | dict(asked) for kind in ("requests", "limits")}
    return pod | {"spec": pod["spec"] | {"containers": [container | {"resources": resources}, *others]}}


def weakest(levels: Iterable[IsolationLevels]) -> IsolationLevels:
    """The weakest level in each dimension; no level if the list is empty."""
    of_all = list(levels)
    if not of_all:
        return NOTHING
    return IsolationLevels(
        memory=min((one.memory for one in of_all), key=STRENGTH.index),
        compute=min((one.compute for one in of_all), key=STRENGTH.index),
    )


def is_lower(now: IsolationLevels, before: IsolationLevels) -> bool:
    """True if a dimension is held less than before."""
    return any(STRENGTH.index(a) < STRENGTH.index(b) for a, b in
               ((now.memory, before.memory), (now.compute, before.compute)))  # fmt: skip
