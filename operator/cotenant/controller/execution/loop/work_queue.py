"""A queue of jobs to look at, each with at most one worker at a time. Pure: time comes in as data.

The rules are those of controller-runtime's work queue. What is added twice is handed out once. What is being processed
is not handed out again before `done`; if it was added meanwhile, it is handed out after that. What is added for later
waits for its time, or for an `add`, whichever is first. A failed attempt is `add_after`ed its pause: that is the rate
limit, and a fresh observation lifts it.
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class WorkQueue(Generic[Item]):
    def __init__(self) -> None:
        self._ready: dict[Item, None] = {}
        """To be handed out, in the order in which it was added."""
        self._due_at: dict[Item, float] = {}
        """To be added then."""
        self._processing: set[Item] = set()

    def __contains__(self, item: Item) -> bool:
        """It is being processed."""
        return item in self._processing

    @property
    def processing(self) -> Set[Item]:
        return self._processing

    def add(self, item: Item) -> None:
        self._ready[item] = None

    def add_after(self, item: Item, at: float) -> None:
        """Add it at this time, in Unix seconds, instead of at the one that was given last."""
        self._due_at[item] = at

    def get(self, now: float) -> list[Item]:
        """Everything that is ready and not being processed; from here on it is being processed."""
        for item, at in list(self._due_at.items()):
            if at <= now:
                del self._due_at[item]
                self.add(item)
        handed_out = [item for item in self._ready if item not in self._processing]
        for item in handed_out:
            del self._ready[item]
            self._due_at.pop(item, None)
        self._processing.update(handed_out)
        return handed_out

    def start(self, item: Item) -> None:
        """Process it without `get`, on behalf of a plan; what was added before stays added."""
        self._processing.add(item)

    def done(self, item: Item) -> None:
        self._processing.discard(item)

    def next_at(self) -> float | None:
        """Time at which the next item is due; None when none is."""
        return min(self._due_at.values(), default=None)
