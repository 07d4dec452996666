"""What the core was last told of each thing. What did not change is not news, and no reason to decide again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import ClusterFact, JobObserved


class Told:
    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.stale = True
        """Something that decisions depend on has changed since this was last cleared."""
        self._facts: dict[tuple[str, str], Any] = {}
        """(kind, name) → the last fact given."""

    def observe(self, kind: str, name: str, event: ClusterFact, fact: Any) -> None:
        """`fact` is what the event carries; nothing when the thing is gone."""
        known = self._facts.get((kind, name))
        if fact is None:
            if self._facts.pop((kind, name), None) is None:
                return
        elif known == fact:
            if isinstance(event, JobObserved):
                self.state.observe(event)  # nothing new, but its version may confirm an assumption
            return
        else:
            self._facts[kind, name] = fact
        self.stale = True
        self.state.observe(event)

    def last(self, kind: str, name: str) -> Any:
        """None when the core knows nothing of it."""
        return self._facts.get((kind, name))

    def all(self, kind: str) -> Iterator[tuple[str, Any]]:
        return ((name, fact) for (one, name), fact in list(self._facts.items()) if one == kind)
