"""Cache of fits and scores of a ledger, by shape and tenant (`shape_fit`, `shape_scores`).

An entry is made when it is first asked for, and brought up to date for the rows that were written since. A GPU fits if
it has room for the amounts and if the tenant may share it; the first answer is kept by itself, so that tenants share
it. If no node has GPUs of several kinds, all classes share the fits of the shape without classes, and a request looks
only at rows of its classes. A cache can follow the ledger of the next cycle (`follow`): only rows that differ are
judged again.
Bounded: beyond so many rows over all entries of a sort, the one that was asked for least recently is dropped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Sharing
from cotenant.core.placement.fitting import Tenancy, room
from cotenant.core.placement.scoring import Scorer
from cotenant.core.placement.shape_fit import ShapeFit
from cotenant.core.placement.shape_scores import ShapeScores
from cotenant.core.placement.shapes import Shape, one_gpu_of, without_classes

ANY_TENANT = Tenancy(-1, Sharing.NEVER)
"""Stands for all tenants: a whole GPU must be empty, and so looks the same to each. So does any share if no GPU is
held."""
_Key: TypeAlias = tuple[Shape, Tenancy, bool]
"""(shape, tenant, never two workers on one GPU)."""
_ROWS = 4 << 20
"""Rows that are kept over all fits, each of some 24 bytes. Likewise of rooms."""
_SCORED_ROWS = 1 << 20
"""Rows that are kept over all scores, each of 64 bytes if nodes have 8 GPUs."""
_CHANGES = 8
"""Changes of each row, on average, after which a cache begins anew."""
_AnyKey = TypeVar("_AnyKey")
_Entry = TypeVar("_Entry")


@dataclass(slots=True)
class _Room:
    gpus: BoolArray
    """[N, G] True if the GPU has room."""
    seen: int
    """Changes of the ledger that it follows."""


class FitCache:
    def __init__(self, ledger: Ledger, scorer: Scorer, *, is_empty: bool = False) -> None:
        """`is_empty`: nothing is ever held in the ledger, so all tenants share one answer."""
        self._is_empty = is_empty
        self.ledger = ledger
        self.scorer = scorer
        self._shape_fits: dict[_Key, ShapeFit] = {}
        """In each of these the most recently asked for stands last."""
        self._rooms: dict[Shape, _Room] = {}
        """By what is taken of one GPU."""
        self._scores: dict[Shape, ShapeScores] = {}
        """By the shape without classes."""

    def shape_fit(self, shape: Shape, tenancy: Tenancy, *, distinct: bool = True) -> ShapeFit:
        """Fits and scores of the shape for the tenant. Read only rows with GPUs of the shape's classes: unless some
        node has GPUs of several kinds, all classes share one fit, and other rows are wrong in it."""
        if shape.count and not self.ledger.inventory.mixed:
            shape = without_classes(shape)
        tenancy = ANY_TENANT if shape.whole or self._is_empty else tenancy
        return self._recent(
            self._shape_fits,
            (shape, tenancy, distinct),
            lambda: ShapeFit(self, shape, tenancy, distinct=distinct),
            rows=_ROWS,
        )

    def room(self, shape: Shape) -> BoolArray:
        """[N, G] GPUs that have what one of the shape's GPUs takes, whoever holds the rest. Read-only."""
        one, ledger = one_gpu_of(shape), self.ledger
        known = self._recent(
            self._rooms, one, lambda: _Room(room(ledger, one, slice(None)), len(ledger.changed_rows)), rows=_ROWS
        )  # fmt: skip
        if known.seen < len(ledger.changed_rows):
            rows = ledger.written_since(known.seen)
            known.gpus[rows] = room(ledger, one, rows)
            known.seen = len(ledger.changed_rows)
        return known.gpus

    def scores(self, shape: Shape, rows: IntArray, fits: BoolArray) -> tuple[IntArray, IntArray | None]:
        """See `ShapeScores.of`."""
        bare = without_classes(shape)
        known = self._recent(
            self._scores, bare, lambda: ShapeScores(self.scorer, bare, self.ledger), rows=_SCORED_ROWS
        )  # fmt: skip
        return known.of(rows, fits, self.room(bare))

    def follow(self, ledger: Ledger, scorer: Scorer) -> FitCache:
        """This cache, which from now on answers for another ledger; only rows in which the two differ are judged again.
        A new cache, if that ledger is of other nodes, or if very much was written."""
        rows, changes = _differing(self.ledger, ledger), self.ledger.changed_rows
        if rows is None or len(changes) > _CHANGES * len(ledger.packed):
            return FitCache(ledger, scorer, is_empty=self._is_empty)
        ledger.changed_rows[:] = changes + rows
        self.ledger, self.scorer, self._scores = ledger, scorer, {}
        for fit in self._shape_fits.values():
            fit.score_anew()
        return self

    def _recent(self, entries: dict[_AnyKey, _Entry], key: _AnyKey, new: Callable[[], _Entry], *, rows: int) -> _Entry:
        """The entry, which becomes the most recent one. `rows`: that all of them may have."""
        entry = entries.pop(key, None)
        if entry is None:
            while len(entries) >= max(64, rows // max(1, len(self.ledger.packed))):
                del entries[next(iter(entries))]
            entry = new()
        entries[key] = entry
        return entry


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
