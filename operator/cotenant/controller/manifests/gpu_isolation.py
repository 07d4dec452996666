"""How a pod gets only its own GPUs: one small interface, one implementation per path of the design's section 7.

`manifests` calls `render` while it builds a pod; the loop calls `verify` with what the ranks say they see. Here lives
path A: the NVIDIA runtime hands the container the named GPUs, memory limits are cooperative, the agent watches.
Device-plugin slots (path B) and resource claims (path C) are further implementations of the same protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cotenant.api.resources.trainingjob_status import Isolation
from cotenant.controller.client.kube import Document
from cotenant.core.model.objects import NodePlacement

STRENGTH: Final = tuple(Isolation)
"""Weakest first; the published level of a job is the weakest of its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIsolation:
    """What the agent of one node says that it can enforce."""

    simulated: bool
    best: Isolation


@dataclass(frozen=True, slots=True)
class Rendered:
    pod: Document
    side_objects: tuple[Document, ...] = ()


class IsolationPath(Protocol):
    def render(self, placement: NodePlacement, pod: Document) -> Rendered:
        """The pod with exactly the GPUs of `placement` in it, and the objects that it needs beside it."""

    def verify(self, placement: NodePlacement, observed: Mapping[str, Sequence[str]]) -> str:
        """Empty, or which rank sees other GPUs than it was granted; `observed` is rank → UUIDs, from inside.

        A rank may see those of the other ranks in its pod: the container is the boundary, and torchrun's way.
        """

    def release(self, placement: NodePlacement) -> tuple[Document, ...]:
        """The side objects that must go when the pod is gone."""


@dataclass(frozen=True, slots=True)
class RuntimePath:
    """Path A. On a node whose GPUs are simulated there is nothing to hand out but the names."""

    node: NodeIsolation
    runtime_class: str

    def render(self, placement: NodePlacement, pod: Document) -> Rendered:
        uuids = ",".join(uuids_of(placement))
        env: list[dict[str, Any]] = [{"name": "CUDA_VISIBLE_DEVICES", "value": uuids}]
        spec = dict(pod["spec"])
        if not self.node.simulated:
            env.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": uuids})
            env.append({"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"})
            spec["runtimeClassName"] = self.runtime_class
        container, *others = spec["containers"]
        spec["containers"] = [container | {"env": container["env"] + env}, *others]
        return Rendered(pod | {"spec": spec})

    def verify(self, placement: NodePlacement, observed: Mapping[str, Sequence[str]]) -> str:
        of_pod = set(uuids_of(placement))
        for rank in placement.ranks:
            seen = observed.get(str(rank.rank))
            if seen is None or (not seen and self.node.simulated):
                continue  # not told yet, or nothing there that could be seen
            granted = {grant.uuid for grant in rank.gpus}
            if not granted <= set(seen) <= of_pod:
                said, given = ", ".join(sorted(seen)) or "no GPU", ", ".join(sorted(granted))
                return f"rank {rank.rank} on node {placement.node} sees {said} but was granted {given}"
        return ""

    def release(self, placement: NodePlacement) -> tuple[Document, ...]:
        return ()


def uuids_of(placement: NodePlacement) -> list[str]:
    """Every GPU of one pod once, in the order of its ranks."""
    return list(dict.fromkeys(grant.uuid for rank in placement.ranks for grant in rank.gpus))


def level(nodes: list[NodeIsolation]) -> Isolation:
    """The weakest node decides. Path A reaches `Watched` at best, whatever the node could do on another path."""
    if not nodes:
        return Isolation.NONE
    reached = [Isolation.NONE if n.simulated else min(n.best, Isolation.WATCHED, key=_strength) for n in nodes]
    return min(reached, key=_strength)


def _strength(one: Isolation) -> int:
    return STRENGTH.index(one)
