"""Nodes as Kubernetes and as their agents show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.api.conversion.nodes import NodeFacts, to_node_facts
from cotenant.api.conversion.to_core import parse_gpunode
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.scalars.agent_reports import stored_at
from cotenant.controller.client.kube import Document
from cotenant.controller.informers.pods.pod_record import unix


class NodeIndex:
    """One writer, the object cache."""

    def __init__(self) -> None:
        self.facts: dict[str, NodeFacts] = {}
        self.taints: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self.unreachable: dict[str, float] = {}
        """Node whose kubelet does not answer → Unix seconds since when. Nothing on it can be asked to end."""
        self.gpu_nodes: dict[str, GPUNode] = {}
        self.statuses_written: dict[str, float] = {}
        """GPUNode → Unix seconds at which the API server stored its last status, if the object shows it."""

    def put_node(self, name: str, document: Document, now: float) -> bool:
        """Store a node. True if its jobs have to be looked at: they have to leave its GPUs, or it became unreachable.

        A node that was seen to answer is unreachable since `now` (Unix seconds), because the clock of the control plane
        may differ from this one. Of a node that is new here, its own time counts, if it is not in the future.
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
        since = min(now, unix(ready.get("lastTransitionTime")) or now) if before is None else now
        return self._note_unreachable(name, since) or is_left

    def drop_node(self, name: str, now: float) -> bool:
        """True if the node became unreachable by this: its deletion does not end what runs there."""
        self.facts.pop(name, None)
        return self._note_unreachable(name, now)

    def put_gpu_node(self, name: str, document: Document) -> frozenset[str]:
        """Store a GPUNode. Returns the uids of the pods that its violations name, and of those whose limits have
        changed.

        Raises `DocumentError` if it cannot be read, such as a document of a newer agent. The last readable one stays,
        and its heartbeat goes stale.
        """
        seen, before = parse_gpunode(document), self.gpu_nodes.get(name)
        self.gpu_nodes[name] = seen
        if (stored := stored_at(document)) is not None:
            self.statuses_written[name] = stored.timestamp()
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
