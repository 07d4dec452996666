"""Nodes as Kubernetes and as their agents show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.api.conversion.nodes import NodeFacts, to_node_facts
from cotenant.api.conversion.to_core import parse_gpunode
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.controller.client.kube import Document
from cotenant.controller.informers.pods.pod_record import unix


class NodeIndex:
    """One writer, the object cache."""

    def __init__(self) -> None:
        self.facts: dict[str, NodeFacts] = {}
        self.taints: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self.unreachable: dict[str, float] = {}
        """Nodes whose kubelet does not answer, and since when, in Unix seconds: nothing on them can be asked to end."""
        self.gpu_nodes: dict[str, GPUNode] = {}
        self.statuses_written: dict[str, float] = {}
        """GPUNode → when the API server took its status in last, in Unix seconds, where it says so."""

    def put_node(self, name: str, document: Document, now: float) -> bool:
        """Returns whether its jobs are to be looked at: its GPUs are to be left, or it became unreachable: at `now`, in
        Unix seconds, where it does not say since when.
        """
        before = self.facts.get(name)
        facts, taints = to_node_facts(document), tuple((document.get("spec") or {}).get("taints") or ())
        is_left = bool(facts.drained_by) and (before is None or not before.drained_by)
        self.facts[name], self.taints[name] = facts, taints
        conditions = (document.get("status") or {}).get("conditions") or ()
        ready: Mapping[str, Any] = next((one for one in conditions if one.get("type") == "Ready"), {})
        if ready.get("status") == "True":
            self.unreachable.pop(name, None)
            return is_left
        return self._note_unreachable(name, unix(ready.get("lastTransitionTime")) or now) or is_left

    def drop_node(self, name: str, now: float) -> bool:
        """Returns whether it became unreachable by this: what runs there is not ended by its deletion."""
        self.facts.pop(name, None)
        return self._note_unreachable(name, now)

    def put_gpu_node(self, name: str, document: Document) -> frozenset[str]:
        """Returns the uids of the pods that its violations name, and of those whose limits are other than before.

        Raises `DocumentError` for what cannot be read, such as a newer agent's document: the last one that could be
        read stays, and goes stale by its heartbeat.
        """
        seen, before = parse_gpunode(document), self.gpu_nodes.get(name)
        self.gpu_nodes[name] = seen
        if (written := status_written_at(document)) is not None:
            self.statuses_written[name] = written
        changed = set(seen.status.limits) ^ set(before.status.limits if before else ())
        violators = {violation.pod_uid for violation in seen.status.violations}
        return frozenset(violators | {limit.pod_uid for limit in changed})

    def drop_gpu_node(self, name: str) -> None:
        self.gpu_nodes.pop(name, None)
        self.statuses_written.pop(name, None)

    def _note_unreachable(self, name: str, since: float) -> bool:
        if name in self.unreachable:
            return False
        self.unreachable[name] = since
        return True


def status_written_at(document: Document) -> float | None:
    """Time of the last write of the status by the API server's own clock; None where the object does not show it."""
    times = [
        unix(entry.get("time"))
        for entry in document["metadata"].get("managedFields") or ()
        if entry.get("subresource") == "status"
    ]
    return max(times, default=None)
