"""What a person asked of a page: which part of a list, with which filters. It is read from the address, within
limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

from cotenant.dashboard.reading.request_rows import RequestRow
from cotenant.dashboard.reading.rows import JobRow

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R", JobRow, RequestRow)
TEXT_MAX: Final = 253
HOURS: Final = (1, 6, 24, 168)
PAGE_MAX: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked. `namespace`: empty is the person's home, `*` is all."""

    page: int = 1
    namespace: str = ""
    queue: str = ""
    text: str = ""
    """A text that may stand anywhere in a name."""
    show: str = ""
    """The chosen part of a view, in the view's own words."""
    hours: int = 6
    days: int = 0
    """Days of the past; 0 for all."""
    user: str = ""
    rank: int = 0

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Wish:
        """Read it from the address. Parameters that make no sense are ignored."""

        def number(name: str, least: int, most: int, default: int) -> int:
            given = query.get(name, "")
            return (
                max(least, min(most, int(given))) if given.isascii() and given.isdigit() and len(given) < 8 else default
            )

        hours = number("hours", 1, 168, 6)
        return cls(
            page=number("page", 1, PAGE_MAX, 1),
            namespace=query.get("namespace", "")[:TEXT_MAX].strip(),
            queue=query.get("queue", "")[:TEXT_MAX].strip(),
            text=query.get("q", "")[:TEXT_MAX].strip().lower(),
            show=query.get("show", "")[:16],
            hours=hours if hours in HOURS else 6,
            days=number("days", 0, 3650, 0),
            user=query.get("user", "")[:TEXT_MAX].strip(),
            rank=number("rank", 0, 4096, 0),
        )

    def takes(self, queue: str, *texts: str) -> bool:
        """True if something of this queue, with these texts, passes the filters for queue and text."""
        if self.queue not in ("", queue):
            return False
        return not self.text or any(self.text in one.lower() for one in texts)

    def address(self, **changes: str | int) -> str:
        """The query string of an address with these changes. A changed filter starts on the first page."""
        page = 1 if changes.keys() - {"page"} else self.page
        given: dict[str, str | int] = {
            "page": page, "namespace": self.namespace, "queue": self.queue, "q": self.text, "show": self.show,
            "hours": self.hours, "days": self.days, "user": self.user, "rank": self.rank,
        }  # fmt: skip
        plain: dict[str, str | int] = {"page": 1, "hours": 6, "days": 0, "rank": 0}
        kept = {key: one for key, one in (given | changes).items() if one not in ("", plain.get(key, ""))}
        return "?" + urlencode(kept)


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    items: Sequence[T]
    page: int
    pages: int
    total: int

    @property
    def is_split(self) -> bool:
        return self.pages > 1

    def showing(self, rows: Sequence[U]) -> Paged[U]:
        """The same page with these rows."""
        return Paged(rows, self.page, self.pages, self.total)


def in_standing(
    rows: Iterable[R], standings: Mapping[str, frozenset[str]], wish: Wish
) -> tuple[str, dict[str, int], list[R]]:
    """The standing that a page shows, the number of rows in each, and the rows in the one that is shown.

    `standings`: word on the page → phases. The first is shown unless another is chosen.
    """
    every = list(rows)
    show, phases = wish.show if wish.show in standings else next(iter(standings)), Counter(row.phase for row in every)
    counts = {word: sum(phases[phase] for phase in among) for word, among in standings.items()}
    return show, counts, [row for row in every if row.phase in standings[show]]


def paged(items: Sequence[T], page: int, size: int) -> Paged[T]:
    """The page with this number, or the last page."""
    pages = max(1, -(-len(items) // size))
    page = min(page, pages)
    return Paged(items[(page - 1) * size : page * size], page, pages, len(items))
