"""GPU isolation: a pod gets only its own GPUs. One interface, one implementation per path of the design's section 7.

Here is path A: the NVIDIA runtime gives the container the named GPUs, memory limits are cooperative, the agent watches.
Device-plugin slots (path B) and resource claims (path C) would be further implementations of the same protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.client.kube import Document
from cotenant.core.model.objects import NodePlacement

STRENGTH: Final = tuple(Isolation)
"""Weakest first; the published level of a job is the weakest of its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIsolation:
    """Isolation that one node can enforce, as its agent reports it."""

    simulated: bool
    best: Isolation


class IsolationPath(Protocol):
    def render(self, placement: NodePlacement, pod: Document) -> Document:
        """Add exactly the GPUs of `placement` to the pod."""

    def verify(self, placement: NodePlacement, observed: Mapping[str, Sequence[str]]) -> str:
        """Find a rank that sees other GPUs than it was granted: a message that names it, or empty.

        `observed` is rank → UUIDs, as counted inside the container. A rank may see those of the other ranks in its pod:
        the container is the boundary, as with torchrun.
        """


@dataclass(frozen=True, slots=True)
class RuntimePath:
    """Path A. On a node whose GPUs are simulated only their names are handed out."""

    node: NodeIsolation
    runtime_class: str

    def render(self, placement: NodePlacement, pod: Document) -> Document:
        uuids = ",".join(uuids_of(placement))
        env: list[dict[str, Any]] = [{"name": "CUDA_VISIBLE_DEVICES", "value": uuids}]
        spec = dict(pod["spec"])
        if not self.node.simulated:
            env.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": uuids})
            env.append({"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"})
            spec["runtimeClassName"] = self.runtime_class
        container, *others = spec["containers"]
        spec["containers"] = [container | {"env": container["env"] + env}, *others]
        return pod | {"spec": spec}

    def verify(self, placement: NodePlacement, observed: Mapping[str, Sequence[str]]) -> str:
        of_pod = set(uuids_of(placement))
        for rank in placement.ranks:
            seen = observed.get(str(rank.rank))
            if seen is None or (not seen and self.node.simulated):
                continue  # not reported yet, or no real GPU that could be seen
            granted = {grant.uuid for grant in rank.gpus}
            if not granted <= set(seen) <= of_pod:
                visible, given = ", ".join(sorted(seen)) or "no GPU", ", ".join(sorted(granted))
                return f"rank {rank.rank} on node {placement.node} sees {visible} but was granted {given}"
        return ""


def uuids_of(placement: NodePlacement) -> list[str]:
    """List every GPU of one pod once, in the order of its ranks."""
    return list(dict.fromkeys(grant.uuid for rank in placement.ranks for grant in rank.gpus))


def isolation_level(nodes: list[NodeIsolation]) -> Isolation:
    """Level of a job: the weakest of its nodes. Path A reaches `Watched` at best, whatever the node could do."""
    if not nodes:
        return Isolation.NONE
    reached = [Isolation.NONE if n.simulated else min(n.best, Isolation.WATCHED, key=_strength) for n in nodes]
    return min(reached, key=_strength)


def _strength(one: Isolation) -> int:
    return STRENGTH.index(one)
