"""One shape, for one tenant, over all rows: where it fits, how often, and how good each place is.

Brought up to date for the rows that were written since (`Ledger.changed_rows`). Few rows are looked up by their states,
because a decision and its roll-back bring rows back to states that were judged before; many are judged together.
Capacity is worked out where workers are counted, and scores where something is to be chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.placement.changed_rows import distinct_rows, few_rows
from cotenant.core.placement.fitting import Rows, Tenancy, capacity
from cotenant.core.placement.score_book import ScoredLedger
from cotenant.core.placement.scoring import LOWEST, ScoreScope
from cotenant.core.placement.shapes import Shape

_JUDGED = 512
"""States that are known to one shape and tenant."""


class ShapeFit:
    """One shape, for one tenant, over all rows. Arrays are read-only outside this module."""

    __slots__ = (
        "_capacity",
        "_distinct",
        "_fits",
        "_generation",
        "_judged",
        "_node_scores",
        "_scope",
        "_scored",
        "_shape",
        "_source",
        "_tenancy",
        "seen",
    )

    def __init__(self, source: ScoredLedger, shape: Shape, tenancy: Tenancy, *, distinct: bool) -> None:
        self._source, self._shape, self._tenancy, self._distinct = source, shape, tenancy, distinct
        height, width = source.ledger.inventory.kind.shape
        self._capacity: IntArray = np.zeros(height, dtype=np.int64)
        self._fits: BoolArray = np.zeros((height, width), dtype=np.bool_)
        self.seen = -1
        """Changes of the ledger that fits and capacity follow."""
        self.score_anew()

    def score_anew(self) -> None:
        """The ledger is another one, and scores are others."""
        self._scope = self._source.scorer.scope(self._shape)
        self._node_scores: IntArray | None = None
        self._scored = 0
        """Changes of the ledger that the scores follow."""
        self._judged: dict[int, _Judgement] = {}
        """State of a row → what was found of it, for the last states that came one by one."""
        self._generation = -1
        """Of the states."""

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
        changes = self._source.ledger.changed_rows
        if self._node_scores is None:
            self._node_scores = np.full(len(self._capacity), LOWEST, dtype=np.int64)
            self._score(self._node_scores, np.arange(len(self._capacity)))
        elif self._scored < len(changes):
            recent = changes[self._scored :]
            few = few_rows(recent)
            if few is None:
                self._score(self._node_scores, distinct_rows(recent, len(self._capacity)))
            elif unknown := self._recall_scores(self._node_scores, few):
                self._score(self._node_scores, np.array(unknown))
                self._note_scores(self._node_scores, unknown)
        self._scored = len(changes)
        return self._node_scores

    def node_score(self, row: int) -> int:
        return int(self.node_scores[row])

    def refresh(self) -> None:
        """Bring fits and capacity up to date."""
        changes = self._source.ledger.changed_rows
        if self.seen == len(changes):
            return
        if self.seen < 0:
            self._judge(slice(None))
        else:
            recent = changes[self.seen :]
            few = few_rows(recent)
            if few is None:
                self._judge(distinct_rows(recent, len(self._capacity)))
            elif unknown := self._recall(few):
                self._judge(np.array(unknown))
                self._note(unknown)
        self.seen = len(changes)

    def _judge(self, rows: Rows) -> None:
        fits = self._source.fits(self._shape, self._tenancy, rows)
        self._fits[rows] = fits
        self._capacity[rows] = capacity(self._source.ledger, self._shape, rows, fits, distinct=self._distinct)

    def _states(self) -> IntArray:
        """[N] states of the rows; what is known of states is of these numbers."""
        states = self._source.states()
        if self._generation != self._source.book.generation:
            self._judged.clear()
            self._generation = self._source.book.generation
        return states

    def _recall(self, rows: Iterable[int]) -> list[int]:
        """Fits and capacity of rows whose states are known; returns the other rows."""
        unknown, states = [], self._states()
        for row in rows:
            if (known := self._judged.get(int(states[row]))) is None:
                unknown.append(row)
            else:
                self._fits[row], self._capacity[row] = known.fits, known.capacity
        return unknown

    def _recall_scores(self, scores: IntArray, rows: Iterable[int]) -> list[int]:
        """The same for scores, of rows that are up to date."""
        unknown, states = [], self._states()
        for row in rows:
            known = self._judged.get(int(states[row]))
            if known is None or known.score is None:
                unknown.append(row)
            else:
                scores[row] = known.score
        return unknown

    def _note(self, rows: Iterable[int]) -> None:
        """Remember what was just found of the rows."""
        states = self._states()
        for row in rows:
            while len(self._judged) >= _JUDGED:
                del self._judged[next(iter(self._judged))]
            self._judged[int(states[row])] = _Judgement(self._fits[row].copy(), int(self._capacity[row]))

    def _note_scores(self, scores: IntArray, rows: Iterable[int]) -> None:
        states = self._states()
        for row in rows:
            if (known := self._judged.get(int(states[row]))) is not None:
                known.score = int(scores[row])

    def _answers(self, rows: IntArray) -> tuple[IntArray, IntArray | None]:
        return self._source.book.answers(self._shape).of(self._source, rows, self._fits.take(rows, axis=0))

    def _score(self, scores: IntArray, rows: IntArray) -> None:
        takes = self.capacity.take(rows) > 0
        if not takes.all():
            scores[rows[~takes]] = LOWEST
            rows = rows[takes]
            if not len(rows):
                return
        scores[rows], _ = self._answers(rows)


@dataclass(slots=True)
class _Judgement:
    """One state, for one shape and tenant."""

    fits: BoolArray
    """[G]."""
    capacity: int
    score: int | None = None
    """None: was not asked for."""
