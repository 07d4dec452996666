"""The colour of a tenant. It is the same on every page of a session, and unique while there are enough colours."""

from __future__ import annotations

from typing import Final
from zlib import crc32

COLOURS: Final = 12


class Palette:
    """Namespace → class of the style sheet. The name determines the colour; if that is taken, the next free one is
    used.
    """

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def colour(self, namespace: str) -> str:
        """The tenant's colour class. Its name always stands beside it, because the thirteenth tenant shares a
        colour.
        """
        if namespace not in self._given:
            first = crc32(namespace.encode()) % COLOURS
            taken = set(self._given.values())
            wanted = [(first + step) % COLOURS for step in range(COLOURS)]
            self._given[namespace] = next((one for one in wanted if one not in taken), first)
        return f"t{self._given[namespace]}"
