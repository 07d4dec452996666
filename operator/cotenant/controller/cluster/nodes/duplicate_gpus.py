"""GPU UUIDs that two GPUNodes list. A GPU has one node, so one list is wrong, and nobody knows which."""

from __future__ import annotations

from collections.abc import Iterable


class DuplicateGpus:
    def __init__(self) -> None:
        self._listed: dict[str, frozenset[str]] = {}
        """Node → UUIDs."""
        self._listers: dict[str, set[str]] = {}
        """UUID → nodes."""

    def update(self, node: str, uuids: Iterable[str]) -> set[str]:
        """Store the UUIDs that a node lists now. Returns the other nodes for which a duplicate begins or ends."""
        before, after = self._listed.pop(node, frozenset()), frozenset(uuids)
        affected: set[str] = set()
        for uuid in before - after:
            self._listers[uuid].discard(node)
            affected |= self._listers[uuid]
            if not self._listers[uuid]:
                del self._listers[uuid]
        for uuid in after - before:
            affected |= self._listers.setdefault(uuid, set())
            self._listers[uuid].add(node)
        if after:
            self._listed[node] = after
        return affected

    def others(self, node: str, uuid: str) -> list[str]:
        """Other nodes that list it too."""
        return sorted(self._listers.get(uuid, set()) - {node})
