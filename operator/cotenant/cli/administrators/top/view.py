"""What the person has chosen in `cotenant top`: the view, its order, the search, the place of the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

VIEWS: Final = ("Queues", "GPUs", "Waiting")
SORTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Queues": ("tree", "used", "waiting", "share"),
    "GPUs": ("node", "idle", "held"),
    "Waiting": ("place", "age", "queue", "reason"),
}
"""The orders of each view. A capital first letter selects an order."""


class Style(Enum):
    PLAIN = 0
    BOLD = 1
    GOOD = 2
    WARNING = 3
    BAD = 4
    DIM = 5
    CHOSEN = 6


Line: TypeAlias = tuple[tuple[str, Style], ...]
"""Pieces of text, from left to right."""


class Overlay(Enum):
    """What covers the list: details or the list of keys."""

    NONE = 0
    DETAILS = 1
    KEYS = 2


@dataclass(frozen=True, slots=True)
class TopRow:
    """One row: a queue, a node or a job."""

    key: str
    """The row's name. The cursor stays on it if the order changes."""
    text: str
    """The text that a search reads."""
    lines: tuple[Line, ...]
    details: Callable[[], Iterable[str]]


@dataclass(frozen=True, slots=True)
class TopView:
    """The person's choices."""

    view: str = VIEWS[0]
    sorts: Mapping[str, str] = field(default_factory=dict)
    """View → its order, if it is not the first."""
    is_reversed: bool = False
    search: str = ""
    """Only rows with this text are listed."""
    sought: str = ""
    """The last search, for the key that goes to the next match."""
    typing: bool = False
    """True while the person types the search."""
    chosen: str = ""
    """Key of the selected row; empty for the first row."""
    at: int = 0
    """Index of the selected row when it was selected. The cursor stays there if the row is gone."""
    first: int = 0
    """First visible line, of the list or of the overlay."""
    overlay: Overlay = Overlay.NONE

    @property
    def sort(self) -> str:
        return self.sorts.get(self.view, SORTS[self.view][0])

    def has(self, text: str) -> bool:
        """True if the row is listed: it contains the search text."""
        return self.search.casefold() in text.casefold()
