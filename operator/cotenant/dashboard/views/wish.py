"""What a person wishes to see of a page: which part of a list, filtered by what. Read from an address, bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")
TEXT_MAX: Final = 253
HOURS: Final = (1, 6, 24, 168)
PAGE_MAX: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """`namespace`: empty is where the person is at home, `*` all."""

    page: int = 1
    namespace: str = ""
    queue: str = ""
    text: str = ""
    """Found anywhere in a name."""
    show: str = ""
    """Which part of a view, in its own words."""
    hours: int = 6
    days: int = 0
    """Of the past; 0: all."""
    user: str = ""
    rank: int = 0

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Wish:
        """What makes no sense is left out."""

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

    def address(self, **changes: str | int) -> str:
        """The part of an address behind `?`, with these changes; another filter begins on the first page."""
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
    """One page of a list."""

    items: Sequence[T]
    page: int
    pages: int
    total: int

    @property
    def is_split(self) -> bool:
        return self.pages > 1


def paged(items: Sequence[T], page: int, size: int) -> Paged[T]:
    """The page of this number, or the last one."""
    pages = max(1, -(-len(items) // size))
    page = min(page, pages)
    return Paged(items[(page - 1) * size : page * size], page, pages, len(items))
