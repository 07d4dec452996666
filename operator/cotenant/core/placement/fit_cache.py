"""Where shapes fit on the nodes of one ledger, how often, and how good each place is; worked out once and kept.

An answer is made when it is first asked for, and brought up to date for the rows that were written since. A GPU fits if
it has room for the amounts and if the tenant may share it; the first answer is kept by itself, so that tenants share
it. If no node has GPUs of several kinds, all classes share the fits of the shape without classes, and a request looks
only at rows of its classes. A cache can follow the ledger of the next cycle (`follow`): only rows that differ are
judged again.
Bounded: beyond so many rows over all entries of a sort, the one that was asked for least recently is dropped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Generic, TypeVar

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray, Rows
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Sharing
from cotenant.core.placement.fitting import Tenancy, capacity, may_share, room
from cotenant.core.placement.scoring import LOWEST, Scorer, ScoreScope
from cotenant.core.placement.shape_scores import ShapeScores
from cotenant.core.placement.shapes import Shape, one_gpu_of, rougher, without_classes

ANY_TENANT = Tenancy(-1, Sharing.NEVER)
"""Stands for all tenants: a whole GPU must be empty, and so looks the same to each. So does any share if no GPU is
held."""
_ROWS = 4 << 20
"""Rows that are kept over all fits, each of some 24 bytes. Likewise of rooms."""
_SCORED_ROWS = 1 << 20
"""Rows that are kept over all scores, each of 64 bytes if nodes have 8 GPUs."""
_CHANGES = 8
"""Changes of each row, on average, after which a cache begins anew."""

_ALIKE = 2
"""Shapes with one `rougher` shape of which all rows are scored. Bounds gain nothing if fewer than four are alike."""
_LIKELY = 16
"""Rows that are scored first to find the best one. Four times as many are scored next, so that few rounds score all."""

_Array = TypeVar("_Array", IntArray, BoolArray)


class FitCache:
    def __init__(self, ledger: Ledger, scorer: Scorer, *, is_empty: bool = False) -> None:
        """`is_empty`: nothing is ever held in the ledger, so all tenants share one answer."""
        self._is_empty = is_empty
        self.ledger = ledger
        self.scorer = scorer
        height = max(1, len(ledger.inventory.nodes))
        fits, scored = max(64, _ROWS // height), max(64, _SCORED_ROWS // height)
        self._shape_fits = lru_cache(fits)(partial(ShapeFit, self))
        """By shape, tenant, and whether no two workers may lie on one GPU."""
        self._fits = lru_cache(fits)(self._new_fits)
        """By what is taken of one GPU, and tenant; None: whoever holds the rest."""
        self._shareable = lru_cache(fits)(lambda who: KeptRows(self, lambda rows: may_share(self.ledger, rows, who)))
        """By tenant."""
        self._scores = lru_cache(scored)(lambda shape: ShapeScores(self.ledger, self.scorer, shape))
        """By the shape without classes."""
        self._alike: dict[Shape, dict[Shape, int]] = {}
        """Rougher shape → shapes like it, in the order in which they were asked for."""

    def shape_fit(self, shape: Shape, tenancy: Tenancy, *, distinct: bool = True) -> ShapeFit:
        """Fits and scores of the shape for the tenant. Read only rows with GPUs of the shape's classes: unless some
        node has GPUs of several kinds, all classes share one fit, and other rows are wrong in it."""
        if shape.count and not self.ledger.inventory.mixed:
            shape = without_classes(shape)
        return self._shape_fits(shape, ANY_TENANT if shape.whole or self._is_empty else tenancy, distinct)

    def room(self, shape: Shape) -> BoolArray:
        """[N, G] GPUs that have what one of the shape's GPUs takes, whoever holds the rest. Read-only."""
        return self._fits(one_gpu_of(shape), None).now()

    def fits(self, shape: Shape, tenancy: Tenancy) -> KeptRows[BoolArray]:
        """[N, G] GPUs that may serve the shape for the tenant."""
        return self._fits(one_gpu_of(shape), None if shape.whole else tenancy)

    def _new_fits(self, one: Shape, tenancy: Tenancy | None) -> KeptRows[BoolArray]:
        if tenancy is None:
            return KeptRows(self, lambda rows: room(self.ledger, one, rows))
        large, shareable = self._fits(one, None), self._shareable(tenancy)
        return KeptRows(self, lambda rows: large.now()[rows] & shareable.now()[rows])

    def scores(self, shape: Shape, rows: IntArray, fits: BoolArray) -> tuple[IntArray, IntArray | None]:
        """See `ShapeScores.of`."""
        bare = without_classes(shape)
        return self._scores(bare).of(rows, fits, self.room(bare))

    def bounding(self, shape: Shape) -> Shape:
        """The shape whose scores bound those of this one: the `rougher` one, or itself if few others are like it."""
        if self.scorer.scope(shape) is ScoreScope.FIT:
            return shape
        alike = self._alike.setdefault(rougher(shape), {})
        number = alike.setdefault(without_classes(shape), len(alike))
        return shape if number < _ALIKE else rougher(shape)

    def follow(self, ledger: Ledger, scorer: Scorer) -> FitCache:
        """This cache, which from now on answers for another ledger; only rows in which the two differ are judged again.
        A new cache, if that ledger is of other nodes, or if very much was written."""
        rows, changes = _differing(self.ledger, ledger), self.ledger.changed_rows
        if rows is None or len(changes) > _CHANGES * len(ledger.inventory.nodes):
            return FitCache(ledger, scorer, is_empty=self._is_empty)
        ledger.changed_rows[:] = changes + rows
        self.ledger, self.scorer = ledger, scorer
        self._scores.cache_clear()
        self._alike.clear()
        return self


class KeptRows(Generic[_Array]):
    """An array over all nodes of the cache's ledger. Rows that were written are worked out again when it is read."""

    __slots__ = ("_array", "_cache", "_seen", "_work_out")

    def __init__(self, cache: FitCache, work_out: Callable[[Rows], _Array]) -> None:
        self._cache = cache
        self._work_out: Callable[[Rows], _Array] = work_out
        self._seen = len(cache.ledger.changed_rows)
        self._array: _Array = work_out(slice(None))

    def now(self) -> _Array:
        """Read-only."""
        ledger = self._cache.ledger
        if self._seen < len(ledger.changed_rows):
            rows = ledger.written_since(self._seen)
            self._seen = len(ledger.changed_rows)
            self._array[rows] = self._work_out(rows)
        return self._array


class ShapeFit:
    """One shape, for one tenant, over all rows. Capacity is worked out where workers are counted, and scores where
    something is to be chosen. Arrays are read-only outside this module.

    If many shapes are alike, the scores of their `rougher` shape are bounds. Then only rows with the best bounds are
    scored to find the best row.
    """

    __slots__ = (
        "_bounds", "_cache", "_capacity", "_fits", "_is_exact", "_likely", "_scored", "_scored_ledger", "_shape",
    )  # fmt: skip

    def __init__(self, cache: FitCache, shape: Shape, tenancy: Tenancy, distinct: bool) -> None:
        self._cache, self._shape = cache, shape
        fits = self._fits = cache.fits(shape, tenancy)
        self._capacity = KeptRows(
            cache, lambda rows: capacity(cache.ledger, shape, rows, fits.now()[rows], distinct=distinct)
        )
        height = len(cache.ledger.inventory.nodes)
        self._bounds: IntArray = np.full(height, LOWEST, dtype=np.int64)
        """[N] no less than the score of each row; LOWEST if the row takes none."""
        self._is_exact: BoolArray = np.ones(height, dtype=np.bool_)
        """[N] the bound is the score."""
        self._likely = _LIKELY
        """Rows that are scored next to find the best one."""
        self._scored_ledger: Ledger | None = None
        self._scored = 0
        """Changes of that ledger that the bounds follow."""

    @property
    def capacity(self) -> IntArray:
        """[N] workers of the shape that each row takes."""
        return self._capacity.now()

    def all_fits(self) -> BoolArray:
        """[N, G] the GPU may serve."""
        return self._fits.now()

    @property
    def node_scores(self) -> IntArray:
        """[N] score of each row that takes at least one, else LOWEST."""
        self._update_bounds()
        if not self._is_exact.all():
            self._score(np.flatnonzero(~self._is_exact))
        return self._bounds

    def score(self, row: int) -> int:
        """Score of the row, or LOWEST if it takes none."""
        self._update_bounds()
        if not self._is_exact[row]:
            self._score(np.array([row]))
        return int(self._bounds[row])

    def best_row(self, rows: Rows) -> int | None:
        """The row of these with the best score, of equal ones the first; None if none of them takes one."""
        self._update_bounds()
        while True:
            bounds = self._bounds[rows] if isinstance(rows, slice) else self._bounds.take(rows)
            best = int(bounds.argmax()) if len(bounds) else 0
            if not len(bounds) or bounds[best] == LOWEST:
                return None
            row = best if isinstance(rows, slice) else int(rows[best])
            if self._is_exact[row]:
                return row
            likely = min(self._likely, len(bounds))
            likely_rows = np.arange(len(self._bounds))[rows][bounds >= np.partition(bounds, -likely)[-likely]]
            self._score(likely_rows[~self._is_exact.take(likely_rows)])
            self._likely *= 4

    def _update_bounds(self) -> None:
        ledger = self._cache.ledger
        if self._scored_ledger is not ledger:
            self._scored_ledger, self._likely, rows = ledger, _LIKELY, np.arange(len(self._bounds))
        elif self._scored < len(ledger.changed_rows):
            rows = ledger.written_since(self._scored)
        else:
            return
        self._scored = len(ledger.changed_rows)
        takes = self.capacity.take(rows) > 0
        if not takes.all():
            without, rows = rows[~takes], rows[takes]
            self._bounds[without], self._is_exact[without] = LOWEST, True
        if len(rows):
            shape = self._shape if len(rows) <= _LIKELY else self._cache.bounding(self._shape)
            self._bounds[rows], _ = self._cache.scores(shape, rows, self._fits.now().take(rows, axis=0))
            self._is_exact[rows] = shape is self._shape

    def _score(self, rows: IntArray) -> None:
        self._bounds[rows], _ = self._cache.scores(self._shape, rows, self._fits.now().take(rows, axis=0))
        self._is_exact[rows] = True

    def gpu_scores(self, row: int) -> IntArray:
        """[G] score of each GPU of the row that may serve, else LOWEST."""
        fits, gpu = self._fits.now()[row], None
        if self._cache.scorer.scope(self._shape) is not ScoreScope.NODE:
            _, gpu = self._cache.scores(self._shape, np.array([row]), fits[None])
        return np.where(fits, 0 if gpu is None else gpu[0], LOWEST)


def _differing(one: Ledger, other: Ledger) -> array[int] | None:
    """Rows in which fits may differ; None if the ledgers are not of the same nodes."""
    before, now = one.inventory, other.inventory
    if not before.has_frame_of(now):
        return None
    differ = one.differs(other)
    if before is not now:
        differ |= (before.usable != now.usable).any(axis=1)
        differ |= (before.ready != now.ready) | (before.shared != now.shared)
    return array("q", np.flatnonzero(differ).tolist())
