"""Cache of fits and scores of a ledger: per shape, where it fits, how often, and how good each place is.

Two nodes in the same state get the same answer, so nodes are first mapped to *states* and only states are scored, each
once per shape. A decision changes one node; the fits of all shapes then look one state up. In a cluster of equal nodes
a few dozen states are scored, whatever the number of nodes, and a trial that is rolled back costs no scoring at all.
Made once per ledger and cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Sharing
from cotenant.core.placement.fitting import Tenancy, capacity, fit
from cotenant.core.placement.scoring import Scorer, Scores
from cotenant.core.placement.shapes import Shape

LOWEST = np.iinfo(np.int64).min
_UNKNOWN = -1
_Number = TypeVar("_Number", np.int64, np.bool_)
_ANY_TENANT = Tenancy(-1, Sharing.NEVER)
"""Whole GPUs must be empty, so they look the same to every tenant."""


class ShapeFit:
    """One shape, for one tenant, over all rows. Arrays are read-only outside this module."""

    __slots__ = (
        "_answers",
        "_known",
        "_shape",
        "_slots",
        "_states",
        "_tenancy",
        "capacity",
        "distinct",
        "node_scores",
        "seen",
    )

    def __init__(self, shape: Shape, tenancy: Tenancy, *, distinct: bool, states: IntArray, width: int) -> None:
        self._shape, self._tenancy, self.distinct = shape, tenancy, distinct
        self._states = states
        self._slots: IntArray = np.zeros(0, dtype=np.int64)
        """State → its row in the answers."""
        self._known = 0
        self._answers = _Answers(width)
        self.capacity: IntArray = np.zeros(len(states), dtype=np.int64)
        """[N] workers of the shape that each row takes."""
        self.node_scores: IntArray = np.full(len(states), LOWEST, dtype=np.int64)
        """[N] score of each row that takes at least one, else LOWEST."""
        self.seen = 0

    def fits(self, row: int) -> BoolArray:
        """[G] the GPU may serve."""
        found: BoolArray = self._answers.fits[self._slots[self._states[row]]]
        return found

    def gpu_scores(self, row: int) -> IntArray:
        """[G] score of each GPU of the row."""
        found: IntArray = self._answers.gpu[self._slots[self._states[row]]]
        return found

    def all_fits(self) -> BoolArray:
        """[N, G]."""
        found: BoolArray = self._answers.fits[self._slots[self._states]]
        return found

    def refresh(self, ledger: Ledger, scorer: Scorer, rows: IntArray, numbers: int) -> None:
        """Bring the rows up to date; scores only states that were never seen. `numbers`: states there are."""
        if numbers > len(self._slots):
            self._slots = _longer(self._slots, 2 * numbers, _UNKNOWN)
        states = self._states[rows]
        slots = self._slots[states]
        new = slots == _UNKNOWN
        if new.any():
            unknown, first = np.unique(states[new], return_index=True)
            self._score_states(ledger, scorer, rows[new][first], unknown)
            slots = self._slots[states]
        self.capacity[rows] = self._answers.capacity[slots]
        self.node_scores[rows] = self._answers.open[slots]

    def _score_states(self, ledger: Ledger, scorer: Scorer, rows: IntArray, states: IntArray) -> None:
        fits = fit(ledger, self._shape, rows, self._tenancy)
        workers = capacity(ledger, self._shape, rows, fits, distinct=self.distinct)
        scores = scorer.score(ledger, self._shape, rows, fits)
        self._answers.add(self._known, workers, fits, scores)
        self._slots[states] = np.arange(self._known, self._known + len(rows))
        self._known += len(rows)


def _longer(array: npt.NDArray[_Number], height: int, value: int) -> npt.NDArray[_Number]:
    bigger = np.full((height, *array.shape[1:]), value, dtype=array.dtype)
    bigger[: len(array)] = array
    return bigger


class _Answers:
    """Fits and scores of each state, one row per state in the order of first use."""

    __slots__ = ("capacity", "fits", "gpu", "open")

    def __init__(self, width: int) -> None:
        self.capacity: IntArray = np.zeros(0, dtype=np.int64)
        self.open: IntArray = np.zeros(0, dtype=np.int64)
        self.fits: BoolArray = np.zeros((0, width), dtype=np.bool_)
        self.gpu: IntArray = np.zeros((0, width), dtype=np.int64)

    def add(self, known: int, capacity: IntArray, fits: BoolArray, scores: Scores) -> None:
        """`known`: rows that are in use."""
        used = known + len(capacity)
        if used > len(self.capacity):
            self._grow(max(used, 2 * known))
        self.capacity[known:used] = capacity
        self.open[known:used] = np.where(capacity > 0, scores.node, LOWEST)
        self.fits[known:used] = fits
        self.gpu[known:used] = scores.gpu

    def _grow(self, height: int) -> None:
        for name in self.__slots__:
            old = getattr(self, name)
            setattr(self, name, _longer(old, height, 0))


class FitCache:
    def __init__(self, ledger: Ledger, scorer: Scorer) -> None:
        self.ledger = ledger
        self.scorer = scorer
        self._shape_fits: dict[tuple[Shape, Tenancy, bool], ShapeFit] = {}
        self._numbers: dict[bytes, int] = {}
        self._states: IntArray = np.zeros(len(ledger.packed), dtype=np.int64)
        """[N] state that each row is in."""
        self._seen = len(ledger.changed_rows)
        self._number_states(range(len(ledger.packed)))

    def shape_fit(self, shape: Shape, tenancy: Tenancy, *, distinct: bool = True) -> ShapeFit:
        """Fits and scores of the shape for the tenant, up to date."""
        changes = self.ledger.changed_rows
        if self._seen < len(changes):
            self._number_states(changes[self._seen :])
            self._seen = len(changes)
        key = (shape, _ANY_TENANT if shape.whole else tenancy, distinct)
        known = self._shape_fits.get(key)
        if known is None:
            width = self.ledger.inventory.kind.shape[1]
            known = self._shape_fits[key] = ShapeFit(shape, key[1], distinct=distinct, states=self._states, width=width)
            known.refresh(self.ledger, self.scorer, np.arange(len(self._states), dtype=np.int64), len(self._numbers))
        elif known.seen < len(changes):
            changed = changes[known.seen :]
            rows = changed if len(changed) == 1 else sorted(set(changed))
            known.refresh(self.ledger, self.scorer, np.array(rows, dtype=np.int64), len(self._numbers))
        known.seen = len(changes)
        return known

    def _number_states(self, rows: Sequence[int]) -> None:
        packed, numbers = self.ledger.packed, self._numbers
        for row in rows:
            self._states[row] = numbers.setdefault(packed[row].tobytes(), len(numbers))
