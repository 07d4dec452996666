"""One shape, for one tenant, over all rows: where it fits, how often, and how good each place is.

Brought up to date for the rows that were written since. Capacity is worked out where workers are counted, and scores
where something is to be chosen.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement.fitting import Tenancy, capacity, may_share
from cotenant.core.placement.scoring import LOWEST, Scorer, ScoreScope
from cotenant.core.placement.shapes import Shape


class ScoredLedger(Protocol):
    """A ledger with its scorer and its cached fits and scores."""

    ledger: Ledger
    scorer: Scorer

    def room(self, shape: Shape) -> BoolArray:
        """[N, G] GPUs that have what one of the shape's GPUs takes, whoever holds the rest."""
        ...

    def scores(self, shape: Shape, rows: IntArray, fits: BoolArray) -> tuple[IntArray, IntArray | None]:
        """See `ShapeScores.of`."""
        ...


class ShapeFit:
    """One shape, for one tenant, over all rows. Arrays are read-only outside this module."""

    __slots__ = (
        "_capacity",
        "_distinct",
        "_fits",
        "_node_scores",
        "_scope",
        "_scored",
        "_seen",
        "_shape",
        "_source",
        "_tenancy",
    )

    def __init__(self, source: ScoredLedger, shape: Shape, tenancy: Tenancy, *, distinct: bool) -> None:
        self._source, self._shape, self._tenancy, self._distinct = source, shape, tenancy, distinct
        height, width = source.ledger.inventory.kind.shape
        self._capacity: IntArray = np.zeros(height, dtype=np.int64)
        self._fits: BoolArray = np.zeros((height, width), dtype=np.bool_)
        self._seen = -1
        """Changes of the ledger that fits and capacity follow."""
        self.score_anew()

    def score_anew(self) -> None:
        """The ledger is another one, and scores are others."""
        self._scope = self._source.scorer.scope(self._shape)
        self._node_scores: IntArray | None = None
        self._scored = 0
        """Changes of the ledger that the scores follow."""

    @property
    def capacity(self) -> IntArray:
        """[N] workers of the shape that each row takes."""
        self.refresh()
        return self._capacity

    def fits(self, row: int) -> BoolArray:
        """[G] the GPU may serve."""
        found: BoolArray = self.all_fits()[row]
        return found

    def all_fits(self) -> BoolArray:
        """[N, G]."""
        self.refresh()
        return self._fits

    def best_gpu(self, row: int) -> int:
        """The GPU with the highest score, of equal ones the first."""
        if self._scope is ScoreScope.NODE:
            return int(self.fits(row).argmax())
        return int(np.where(self.fits(row), self.gpu_scores(row), LOWEST).argmax())

    def gpu_scores(self, row: int) -> IntArray:
        """[G] score of each GPU of the row."""
        if self._scope is ScoreScope.NODE:
            return np.zeros(self._fits.shape[1], dtype=np.int64)
        self.refresh()
        _, gpu = self._answers(np.array([row]))
        return np.zeros(self._fits.shape[1], dtype=np.int64) if gpu is None else gpu[0]

    @property
    def node_scores(self) -> IntArray:
        """[N] score of each row that takes at least one, else LOWEST."""
        ledger = self._source.ledger
        if self._node_scores is None:
            self._node_scores = np.full(len(self._capacity), LOWEST, dtype=np.int64)
            self._score(self._node_scores, np.arange(len(self._capacity)))
        elif self._scored < len(ledger.changed_rows):
            self._score(self._node_scores, ledger.written_since(self._scored))
        self._scored = len(ledger.changed_rows)
        return self._node_scores

    def node_score(self, row: int) -> int:
        return int(self.node_scores[row])

    def refresh(self) -> None:
        """Bring fits and capacity up to date."""
        ledger = self._source.ledger
        if self._seen == len(ledger.changed_rows):
            return
        rows = slice(None) if self._seen < 0 else ledger.written_since(self._seen)
        self._seen = len(ledger.changed_rows)
        fits = self._source.room(self._shape)[rows]
        if not self._shape.whole:
            fits = fits & may_share(ledger, rows, self._tenancy)
        self._fits[rows] = fits
        self._capacity[rows] = capacity(ledger, self._shape, rows, fits, distinct=self._distinct)

    def _answers(self, rows: IntArray) -> tuple[IntArray, IntArray | None]:
        return self._source.scores(self._shape, rows, self._fits.take(rows, axis=0))

    def _score(self, scores: IntArray, rows: IntArray) -> None:
        takes = self.capacity.take(rows) > 0
        if not takes.all():
            scores[rows[~takes]] = LOWEST
            rows = rows[takes]
            if not len(rows):
                return
        scores[rows], _ = self._answers(rows)
