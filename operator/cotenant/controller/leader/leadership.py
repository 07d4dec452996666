"""Leadership of one replica, as a value: whether it leads now, and which parts hear of a change.

If a part remembers what only a leader may know, its constructor passes `on_lost` a function that forgets it.
"""

from __future__ import annotations

from collections.abc import Callable


class Leadership:
    def __init__(self, is_held: Callable[[], bool]) -> None:
        """`is_held` returns whether no other replica can lead now. It is called often."""
        self._is_held = is_held
        self._on_lost: list[Callable[[], None]] = []
        self._on_change: list[Callable[[bool], None]] = []

    @property
    def held(self) -> bool:
        return self._is_held()

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call it each time that leadership is lost: what another leader writes counts from then on."""
        self._on_lost.append(callback)

    def on_change(self, callback: Callable[[bool], None]) -> None:
        """Call it at each change, with true if this replica leads. Callbacks of `on_lost` come first."""
        self._on_change.append(callback)

    def changed(self, held: bool) -> None:
        """Tell all parts. Whoever holds the Lease calls this in the loop that the parts run in."""
        for forget in () if held else self._on_lost:
            forget()
        for callback in self._on_change:
            callback(held)
