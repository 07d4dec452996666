"""What a person sees of `cotenant top`: which view, in which order, what is searched for, where the cursor is."""

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
"""Orders of each view. The first letter of one, as a capital, chooses it."""


class Style(Enum):
    PLAIN = 0
    BOLD = 1
    GOOD = 2
    WARNING = 3
    BAD = 4
    DIM = 5
    CHOSEN = 6


Line: TypeAlias = tuple[tuple[str, Style], ...]
"""Texts, one after the other."""


class Overlay(Enum):
    """What covers the list."""

    NONE = 0
    DETAILS = 1
    KEYS = 2


@dataclass(frozen=True, slots=True)
class TopRow:
    """One thing of a list: a queue, a node, a job."""

    key: str
    """Its name, by which the cursor stays on it when the order changes."""
    text: str
    """What a search looks at."""
    lines: tuple[Line, ...]
    details: Callable[[], Iterable[str]]


@dataclass(frozen=True, slots=True)
class TopView:
    """Choices of the person."""

    view: str = VIEWS[0]
    sorts: Mapping[str, str] = field(default_factory=dict)
    """View → its order, if it is not the first."""
    is_reversed: bool = False
    search: str = ""
    """Only rows with this text are listed."""
    sought: str = ""
    """The last search, for the key that goes to the next match."""
    typing: bool = False
    """The search is being typed."""
    chosen: str = ""
    """Key of the row at the cursor; empty: the first."""
    at: int = 0
    """Its place when it was chosen: where the cursor is once that row is gone."""
    first: int = 0
    """First line that is shown, of the list or of what covers it."""
    overlay: Overlay = Overlay.NONE

    @property
    def sort(self) -> str:
        return self.sorts.get(self.view, SORTS[self.view][0])

    def has(self, text: str) -> bool:
        """True if a row with this text is to be listed."""
        return self.search.casefold() in text.casefold()
