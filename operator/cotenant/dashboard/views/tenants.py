"""The colour of a tenant: the same on every page of a session, and no two alike while there are enough."""

from __future__ import annotations

from typing import Final
from zlib import crc32

COLOURS: Final = 12


class Palette:
    """Namespace → class of the style sheet. The name decides; where its colour is taken, the next that is free does."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def colour(self, namespace: str) -> str:
        """A name always stands beside it: from the thirteenth tenant on, colours are shared."""
        if namespace not in self._given:
            first = crc32(namespace.encode()) % COLOURS
            taken = set(self._given.values())
            wanted = [(first + step) % COLOURS for step in range(COLOURS)]
            self._given[namespace] = next((one for one in wanted if one not in taken), first)
        return f"t{self._given[namespace]}"
