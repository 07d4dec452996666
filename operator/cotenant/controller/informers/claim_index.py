"""ResourceClaims of others that hold GPUs of nodes with an agent. Only the object cache writes here.

The operator's own claims are left out, because their GPUs count with the job. They carry a label that an admission
policy forbids to everybody else.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.api.conversion.device_claims import AllocatedClaim, allocated_claim
from cotenant.controller.client.kube import Document
from cotenant.names import LABEL_MANAGED_BY, MANAGED_BY


class ClaimIndex:
    def __init__(self) -> None:
        self._held: dict[str, AllocatedClaim] = {}
        """namespace/name → claim that holds a GPU."""
        self._of_node: dict[str, set[str]] = {}

    def get(self, key: str) -> AllocatedClaim | None:
        """The claim; None if it does not exist, is the operator's own, or holds no GPU of a node with an agent."""
        return self._held.get(key)

    def on_node(self, node: str) -> frozenset[str]:
        """Keys of the claims that hold GPUs of this node."""
        return frozenset(self._of_node.get(node, ()))

    def put(self, key: str, document: Document) -> frozenset[str]:
        """Store a claim. Returns the nodes on which its GPUs changed."""
        labels: Mapping[str, str] = document["metadata"].get("labels") or {}
        own = labels.get(LABEL_MANAGED_BY) == MANAGED_BY
        return self._replace(key, None if own else allocated_claim(document))

    def drop(self, key: str) -> frozenset[str]:
        """Forget a claim that is gone. Returns the nodes on which its GPUs changed."""
        return self._replace(key, None)

    def _replace(self, key: str, claim: AllocatedClaim | None) -> frozenset[str]:
        before = self._held.pop(key, None)
        if claim is not None:
            self._held[key] = claim
        if before == claim:
            return frozenset()
        nodes_before, nodes = _nodes(before), _nodes(claim)
        for node in nodes_before - nodes:
            self._of_node[node].discard(key)
            if not self._of_node[node]:
                del self._of_node[node]
        for node in nodes:
            self._of_node.setdefault(node, set()).add(key)
        return nodes_before | nodes


def _nodes(claim: AllocatedClaim | None) -> frozenset[str]:
    return frozenset(device.pool for device in claim.devices) if claim is not None else frozenset()
