"""Ledger and quota usage together: what a placement takes is taken from both, or from neither.

Every change goes through `Occupancy`, is logged, and can be undone exactly: what happens within `occupancy.trial()` is
rolled back at its end (KAI-Scheduler's Statement, as a context manager).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from cotenant.core.allocation.allocation import Allocation, AllocationBatch
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement import Scorer
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import fits_exactly
from cotenant.core.quota.headroom import within_lending_limits
from cotenant.core.quota.tree import Bucket
from cotenant.core.quota.usage import Usage

_Change: TypeAlias = tuple[Allocation | tuple[AllocationBatch, int, int], int]
"""(an allocation or a stretch of a batch, 1 allocated or -1 released)."""


class Occupancy:
    __slots__ = ("_log", "fit_cache", "inventory", "ledger", "tree", "usage")

    def __init__(self, ledger: Ledger, usage: Usage, scorer: Scorer, kept: FitCache | None = None) -> None:
        """`kept`: fits of an earlier ledger, which is not asked any more."""
        self.ledger = ledger
        self.usage = usage
        self.inventory = ledger.inventory
        self.tree = usage.tree
        self.fit_cache = FitCache(ledger, scorer) if kept is None else kept.follow(ledger, scorer)
        self._log: list[_Change] = []

    def copy(self) -> Occupancy:
        return Occupancy(self.ledger.copy(), self.usage.copy(), self.fit_cache.scorer)

    def allocate(self, allocation: Allocation, sign: int = 1) -> None:
        """`sign`: -1 releases it."""
        for node in allocation.nodes:
            self.ledger.allocate(node, sign)
        self.usage.add(allocation.charge, sign)
        self._log.append((allocation, sign))

    def release(self, allocation: Allocation) -> None:
        self.allocate(allocation, -1)

    def allocate_batch(self, batch: AllocationBatch, start: int, stop: int, sign: int = 1) -> None:
        """Allocate the stretch [start, stop) of the batch. `sign`: as above."""
        if start < stop:
            batch.apply(self.ledger, start, stop, sign)
            for charge in batch.charges(start, stop):
                self.usage.add(charge, sign)
            self._log.append(((batch, start, stop), sign))

    def release_batch(self, batch: AllocationBatch, start: int, stop: int) -> None:
        self.allocate_batch(batch, start, stop, -1)

    def fits(self, allocation: Allocation, *, whole: bool) -> bool:
        """Exactly these GPUs are free for it, on top of what is held, and no limit is broken."""
        return all(fits_exactly(self.ledger, node, whole=whole) for node in allocation.nodes) and (
            self.usage.within_limits(allocation.charge)
        )

    def lendable_idle(self) -> Mapping[Bucket, int] | None:
        """Idle milli-GPU per bucket; None if no queue limits what it lends, because then nobody asks."""
        return self.ledger.idle() if self.tree.limits_lending else None

    def within_lending_limits(self, allocation: Allocation) -> bool:
        """The allocation, not yet held, leaves other queues what they do not lend."""
        return not self.tree.limits_lending or within_lending_limits(self.usage, allocation.charge, self.ledger.idle())

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo every change that is made inside, at its end."""
        mark = self.mark
        try:
            yield
        finally:
            self.roll_back(mark)

    def roll_back(self, mark: int) -> None:
        """Undo every change since `mark` was read."""
        while len(self._log) > mark:
            what, sign = self._log[-1]
            if isinstance(what, Allocation):
                self.allocate(what, -sign)
            else:
                self.allocate_batch(*what, -sign)
            del self._log[-2:]

    @property
    def mark(self) -> int:
        return len(self._log)
