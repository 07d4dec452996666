"""A queue of jobs to look at, each with at most one worker at a time. Pure: time comes in as data.

It follows controller-runtime's work queue. An item that is added twice is handed out once. An item in progress is not
handed out again before `done`; if it was added meanwhile, it is handed out then. An item that is added for later waits
for its time or for an `add`, whichever comes first. After a failure, the caller adds the item again with a pause
(`add_after`); a new observation ends the pause.
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class WorkQueue(Generic[Item]):
    def __init__(self) -> None:
        self._ready: dict[Item, None] = {}
        """Items to hand out, in the order in which they were added."""
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
        """Add it for this Unix time, which replaces an earlier one."""
        self._due_at[item] = at

    def get(self, now: float) -> list[Item]:
        """All items that are ready and not in progress. They are in progress from now on."""
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
        """Mark it as in progress without `get`, for an action of a plan. If it was added before, it stays added."""
        self._processing.add(item)

    def done(self, item: Item) -> None:
        self._processing.discard(item)

    def next_at(self) -> float | None:
        """When the next item is due; None if no item waits."""
        return min(self._due_at.values(), default=None)
