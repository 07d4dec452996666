"""Ledger and quota usage together: what a placement takes is taken from both, or from neither.

`Books` is the mutable world of one cycle. Everything that holds or releases goes through it, is logged, and can be
undone exactly: `with books.trial() as trial: … trial.keep()`; leaving without `keep` rolls back (KAI-Scheduler's
Statement, as a context manager).
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeAlias

from cotenant.core.allocation.allocation import Bulk, Holding
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement import Scorer
from cotenant.core.placement.fit_cache import Room
from cotenant.core.placement.fitting import fits_exactly
from cotenant.core.quota.usage import Usage

_Entry: TypeAlias = tuple[Holding | tuple[Bulk, int, int], int]
"""(what, 1 held or -1 released)."""


class Books:
    __slots__ = ("_log", "ledger", "room", "usage")

    def __init__(self, ledger: Ledger, usage: Usage, scorer: Scorer) -> None:
        self.ledger = ledger
        self.usage = usage
        self.room = Room(ledger, scorer)
        self._log: list[_Entry] = []

    def copy(self) -> Books:
        return Books(self.ledger.copy(), self.usage.copy(), self.room.scorer)

    def hold(self, holding: Holding) -> None:
        self._move((holding, 1))

    def release(self, holding: Holding) -> None:
        self._move((holding, -1))

    def release_many(self, bulk: Bulk, start: int, stop: int) -> None:
        if start < stop:
            self._move(((bulk, start, stop), -1))

    def _move(self, entry: _Entry) -> None:
        what, sign = entry
        if isinstance(what, Holding):
            for take in what.takes:
                (self.ledger.take if sign > 0 else self.ledger.give)(take)
            self.usage.charge(what.charge, sign)
        else:
            bulk, start, stop = what
            bulk.move(self.ledger, start, stop, sign)
            for charge in bulk.charges(start, stop):
                self.usage.charge(charge, sign)
        self._log.append(entry)

    def fits(self, holding: Holding, *, whole: bool) -> bool:
        """Exactly this holding, on top of what is held: room on every GPU and no limit broken."""
        return all(fits_exactly(self.ledger, take, whole=whole) for take in holding.takes) and (
            self.usage.within_limits(holding.charge)
        )

    def lends(self, holding: Holding) -> bool:
        """This holding, not yet held, leaves other queues what they do not lend."""
        return not self.usage.tree.holds_back or self.usage.lends(holding.charge, self.ledger.idle())

    def trial(self) -> Trial:
        return Trial(self, len(self._log))

    def back_to(self, mark: int) -> None:
        while len(self._log) > mark:
            what, sign = self._log[-1]
            self._move((what, -sign))
            del self._log[-2:]

    @property
    def mark(self) -> int:
        return len(self._log)


class Trial:
    """Tentative work on the books: kept only if somebody says so."""

    __slots__ = ("_books", "_kept", "_mark")

    def __init__(self, books: Books, mark: int) -> None:
        self._books, self._mark, self._kept = books, mark, False

    def __enter__(self) -> Trial:
        return self

    def keep(self) -> None:
        self._kept = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._kept:
            self._books.back_to(self._mark)
