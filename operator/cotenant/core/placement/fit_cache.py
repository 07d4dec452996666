"""Cache of fits and scores of a ledger, by shape and tenant (`shape_fit`).

An entry is made when it is first asked for, and brought up to date for the rows that were written since
(`Ledger.changed_rows`). A GPU fits if it has room for the amounts and if the tenant may share it; the two answers are
kept apart, so that shapes and tenants share them. If no node has GPUs of several kinds, all classes share the fits of
the shape without classes, and a request looks only at rows of its classes. Scores come from a `ScoreBook`, which copies
of the ledger share.
A cache can follow the ledger of the next cycle (`follow`): only rows that differ are judged again.
Bounded: beyond `_ROWS` rows over all entries, the entry that was asked for least recently is dropped.
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Sharing
from cotenant.core.placement.changed_rows import distinct_rows
from cotenant.core.placement.fitting import Rows, Tenancy, may_share, room
from cotenant.core.placement.score_book import ScoreBook
from cotenant.core.placement.scoring import Scorer
from cotenant.core.placement.shape_fit import ShapeFit
from cotenant.core.placement.shapes import Shape, one_gpu_of, without_classes

ANY_TENANT = Tenancy(-1, Sharing.NEVER)
"""Stands for all tenants: a whole GPU must be empty, and so looks the same to each. So does any share if no GPU is
held."""
_Key: TypeAlias = tuple[Shape, Tenancy, bool]
"""(shape, tenant, never two workers on one GPU)."""
_ROWS = 4 << 20
"""Rows that are kept over all entries, each of some 24 bytes."""


class FitCache:
    def __init__(
        self, ledger: Ledger, scorer: Scorer, book: ScoreBook | None = None, *, is_empty: bool = False
    ) -> None:
        """`book`: scores of the ledger of which this one is a copy. `is_empty`: nothing is ever held in the ledger, so
        all tenants share one answer."""
        self._is_empty = is_empty
        self.ledger = ledger
        self.scorer = scorer
        self.book = ScoreBook(scorer) if book is None else book
        self._shape_fits: dict[_Key, ShapeFit] = {}
        """The most recently asked for stands last."""
        self._masks: dict[Shape | Tenancy, tuple[BoolArray, int]] = {}
        """Amounts on one GPU, or a tenant → (mask, number of ledger changes that it includes). Most recent last."""
        self._most = max(64, _ROWS // max(1, len(ledger.packed)))
        self._states: IntArray = np.zeros(0, dtype=np.int64)
        """[N] state that each row was in when `_numbered` changes had been made."""
        self._numbered = 0
        self._generation = -1

    def shape_fit(self, shape: Shape, tenancy: Tenancy, *, distinct: bool = True) -> ShapeFit:
        """Fits and scores of the shape for the tenant. Read only rows with GPUs of the shape's classes: unless some
        node has GPUs of several kinds, all classes share one fit, and other rows are wrong in it."""
        if shape.count and not self.ledger.inventory.mixed:
            shape = without_classes(shape)
        tenancy = ANY_TENANT if shape.whole or self._is_empty else tenancy
        key = shape, tenancy, distinct
        known = self._shape_fits.pop(key, None)
        if known is None:
            while len(self._shape_fits) >= self._most:
                del self._shape_fits[next(iter(self._shape_fits))]
            known = ShapeFit(self, shape, tenancy, distinct=distinct)
        self._shape_fits[key] = known
        return known

    def follow(self, ledger: Ledger, scorer: Scorer) -> FitCache:
        """This cache, which from now on answers for another ledger; only rows in which the two differ are judged again.
        A new cache, if that ledger is of other nodes."""
        rows = _differing(self.ledger, ledger)
        if rows is None:
            return FitCache(ledger, scorer, is_empty=self._is_empty)
        changes, same_pods = self.ledger.changed_rows, np.array_equal(self.ledger.packed[:, 0], ledger.packed[:, 0])
        if len(changes) > len(ledger.packed):
            self._count_anew(len(changes))
            changes = array("q")
        if self._numbered < 0 or not same_pods:
            self._states, self._numbered, self._generation = np.zeros(0, dtype=np.int64), 0, -1
        ledger.changed_rows[:] = changes + rows
        self.ledger, self.scorer, self.book = ledger, scorer, ScoreBook(scorer, self.book)
        for fit in self._shape_fits.values():
            fit.score_anew()
        return self

    def _count_anew(self, changes: int) -> None:
        """Drop entries that do not include all changes of the ledger, and count changes from 0."""
        self._shape_fits = {key: fit for key, fit in self._shape_fits.items() if fit.seen == changes}
        self._masks = {key: (mask, 0) for key, (mask, seen) in self._masks.items() if seen == changes}
        for fit in self._shape_fits.values():
            fit.seen = 0
        self._numbered = 0 if self._numbered == changes else -1

    def fits(self, shape: Shape, tenancy: Tenancy, rows: Rows) -> BoolArray:
        """[R, G] GPUs that may serve one of the shape's GPUs now."""
        fits = self._of_rows(one_gpu_of(shape), rows)
        return fits if shape.whole else fits & self._of_rows(tenancy, rows)

    def roomy(self, shape: Shape) -> BoolArray:
        """[N, G] GPUs of any class that have what one of the shape's GPUs takes, whoever holds the rest."""
        return self._mask(one_gpu_of(without_classes(shape)))

    def _of_rows(self, key: Shape | Tenancy, rows: Rows) -> BoolArray:
        mask = self._mask(key)
        return mask[rows] if isinstance(rows, slice) else mask.take(rows, axis=0)

    def _mask(self, key: Shape | Tenancy) -> BoolArray:
        """[N, G] GPUs that have room for the shape, or that the tenant may share; up to date."""
        changes = self.ledger.changed_rows
        known = self._masks.pop(key, None)
        if known is None:
            while len(self._masks) >= self._most:
                del self._masks[next(iter(self._masks))]
            known = self._judge(key, slice(None)), len(changes)
        mask, seen = known
        if seen < len(changes):
            rows = distinct_rows(changes[seen:], len(mask))
            mask[rows] = self._judge(key, rows)
        self._masks[key] = mask, len(changes)
        return mask

    def _judge(self, key: Shape | Tenancy, rows: Rows) -> BoolArray:
        return room(self.ledger, key, rows) if isinstance(key, Shape) else may_share(self.ledger, rows, key)

    def states(self) -> IntArray:
        """[N] numbers of the states that the rows are in now."""
        changes = self.ledger.changed_rows
        if self._numbered < len(changes) and self._generation == self.book.generation:
            rows = changes[self._numbered :]
            self._states[rows] = self.book.numbers(self.ledger, rows)
        while self._generation != self.book.generation:
            self._generation = self.book.generation
            self._states = np.array(self.book.numbers(self.ledger, range(len(self.ledger.packed))), dtype=np.int64)
        self._numbered = len(changes)
        return self._states


def _differing(one: Ledger, other: Ledger) -> array[int] | None:
    """Rows in which fits may differ; None if the ledgers are not of the same nodes."""
    before, now = one.inventory, other.inventory
    if not before.has_frame_of(now):
        return None
    differ = (one.packed[:, 1:] != other.packed[:, 1:]).any(axis=1)  # without the number of equivalent nodes
    if before is not now:
        differ |= (before.usable != now.usable).any(axis=1)
        differ |= (before.ready != now.ready) | (before.shared != now.shared)
    return array("q", np.flatnonzero(differ).tolist())
