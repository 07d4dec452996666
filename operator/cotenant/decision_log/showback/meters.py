"""A meter for each job: milli-GPU × seconds that it has held until any moment, from its status alone.

Two readings always differ by what was held between them, whoever reads and how often, so a new reader continues where
the last one stopped. A finished span counts what was charged for it, to the millisecond; an unfinished one counts whole
seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time in which an attempt held its GPUs. Times are Unix seconds."""

    gpu_class: str
    """Class; empty if unknown."""
    milli: int
    begun: int
    ended: int | None = None
    """None if it goes on."""
    amount: int = 0
    """Milli-GPU × seconds of a finished span."""

    def until(self, at: int) -> int:
        """Milli-GPU × seconds held by then. It never falls, and ends at the amount."""
        if at < self.begun:
            return 0
        held = self.milli * (at - self.begun)
        if self.ended is None:
            return held
        return self.amount if at >= self.ended else min(self.amount, held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    uid: str
    queue: str
    before: int = 0
    """Milli-GPU × seconds of all spans before these."""
    last: Span | None = None
    """The last finished span."""
    current: Span | None = None

    @property
    def spans(self) -> Iterator[Span]:
        """The last finished span, and the unfinished one."""
        yield from (one for one in (self.last, self.current) if one is not None)

    def until(self, at: int) -> int:
        """Milli-GPU × seconds held by then."""
        return self.before + sum(one.until(at) for one in self.spans)

    @property
    def held_milli(self) -> int:
        """Milli-GPU that it holds now."""
        return self.current.milli if self.current else 0

    def held_at(self, at: int) -> int:
        """Milli-GPU that it held then, as far as its spans show."""
        return sum(one.milli for one in self.spans if one.begun <= at and (one.ended is None or at < one.ended))
