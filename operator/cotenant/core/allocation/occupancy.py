"""Ledger and quota usage together: what a placement takes is taken from both, or from neither.

`Books` is the mutable world of one cycle. Everything that holds or releases goes through it, is logged, and can be
undone exactly: `with books.trial() as trial: … trial.keep()`; leaving without `keep` rolls back (KAI-Scheduler's
Statement, as a context manager).
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeAlias

from cotenant.core.allocation.allocation import Allocation, AllocationBatch
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement import Scorer
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import fits_exactly
from cotenant.core.quota.usage import Usage

_Entry: TypeAlias = tuple[Allocation | tuple[AllocationBatch, int, int], int]
"""(what, 1 held or -1 released)."""


class Occupancy:
    __slots__ = ("_log", "fit_cache", "ledger", "usage")

    def __init__(self, ledger: Ledger, usage: Usage, scorer: Scorer) -> None:
        self.ledger = ledger
        self.usage = usage
        self.fit_cache = FitCache(ledger, scorer)
        self._log: list[_Entry] = []

    def copy(self) -> Occupancy:
        return Occupancy(self.ledger.copy(), self.usage.copy(), self.fit_cache.scorer)

    def allocate(self, holding: Allocation) -> None:
        self._move((holding, 1))

    def release(self, holding: Allocation) -> None:
        self._move((holding, -1))

    def release_batch(self, bulk: AllocationBatch, start: int, stop: int) -> None:
        if start < stop:
            self._move(((bulk, start, stop), -1))

    def _move(self, entry: _Entry) -> None:
        what, sign = entry
        if isinstance(what, Allocation):
            for take in what.nodes:
                (self.ledger.allocate if sign > 0 else self.ledger.release)(take)
            self.usage.add(what.charge, sign)
        else:
            bulk, start, stop = what
            bulk.apply(self.ledger, start, stop, sign)
            for charge in bulk.charges(start, stop):
                self.usage.add(charge, sign)
        self._log.append(entry)

    def fits(self, holding: Allocation, *, whole: bool) -> bool:
        """Exactly this holding, on top of what is held: room on every GPU and no limit broken."""
        return all(fits_exactly(self.ledger, take, whole=whole) for take in holding.nodes) and (
            self.usage.within_limits(holding.charge)
        )

    def within_lending_limits(self, holding: Allocation) -> bool:
        """This holding, not yet held, leaves other queues what they do not lend."""
        return not self.usage.tree.limits_lending or self.usage.within_lending_limits(
            holding.charge, self.ledger.idle()
        )

    def trial(self) -> Trial:
        return Trial(self, len(self._log))

    def roll_back(self, mark: int) -> None:
        while len(self._log) > mark:
            what, sign = self._log[-1]
            self._move((what, -sign))
            del self._log[-2:]

    @property
    def mark(self) -> int:
        return len(self._log)


class Trial:
    """Tentative work on the books: kept only if somebody says so."""

    __slots__ = ("_committed", "_mark", "_occupancy")

    def __init__(self, books: Occupancy, mark: int) -> None:
        self._occupancy, self._mark, self._committed = books, mark, False

    def __enter__(self) -> Trial:
        return self

    def commit(self) -> None:
        self._committed = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            self._occupancy.roll_back(self._mark)
