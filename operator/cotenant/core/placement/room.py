"""A ledger with what was computed about it: per shape, where it fits, how often, and how good each place is.

Two nodes in the same state get the same answer, so nodes are first mapped to *states* and only states are judged, each
once per shape. A decision changes one node; the views of all shapes then look one state up. In a cluster of equal nodes
a few dozen states are scored, whatever the number of nodes, and a trial that is rolled back costs no scoring at all.
Made once per ledger and cycle; used by `gang`, trials and forecasts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.core.inventory import BoolArray, IntArray
from cotenant.core.ledger import Ledger
from cotenant.core.model import Sharing
from cotenant.core.placement.fitting import Tenancy, capacity, fit
from cotenant.core.placement.scoring import Scorer
from cotenant.core.placement.shapes import Shape

LOWEST = np.iinfo(np.int64).min
_ANYBODY = Tenancy(-1, Sharing.NEVER)
"""Whole GPUs must be empty, so they look the same to every tenant."""


class View:
    """One shape, for one tenant, over all rows. Arrays are read-only outside this module."""

    __slots__ = ("_fits", "_gpu", "_judged", "_shape", "_states", "_tenancy", "capacity", "distinct", "open", "seen")

    def __init__(self, shape: Shape, tenancy: Tenancy, *, distinct: bool, states: IntArray) -> None:
        self._shape, self._tenancy, self.distinct = shape, tenancy, distinct
        self._states = states
        self._judged: dict[int, tuple[int, int]] = {}
        """State → (capacity, score)."""
        self._fits: dict[int, BoolArray] = {}
        self._gpu: dict[int, IntArray] = {}
        self.capacity: IntArray = np.zeros(len(states), dtype=np.int64)
        """[N] how many of the shape each row takes."""
        self.open: IntArray = np.full(len(states), LOWEST, dtype=np.int64)
        """[N] score of each row that takes at least one, else LOWEST."""
        self.seen = 0

    def fits(self, row: int) -> BoolArray:
        """[G] which GPUs of the row may serve."""
        return self._fits[int(self._states[row])]

    def gpu(self, row: int) -> IntArray:
        """[G] how good each GPU of the row is."""
        return self._gpu[int(self._states[row])]

    def all_fits(self) -> BoolArray:
        """[N, G]."""
        if not len(self._states):
            return np.zeros((0, 0), dtype=np.bool_)
        found: BoolArray = np.stack([self._fits[state] for state in self._states.tolist()])
        return found

    def refresh(self, ledger: Ledger, scorer: Scorer, rows: Sequence[int] | None) -> None:
        """Bring the rows (None: all) up to date; judges only states that were never seen."""
        where = range(len(self._states)) if rows is None else rows
        states = self._states.tolist() if rows is None else [int(self._states[row]) for row in rows]
        unknown = {state: row for row, state in zip(where, states, strict=True) if state not in self._judged}
        if unknown:
            self._judge(ledger, scorer, np.array(list(unknown.values()), dtype=np.int64), list(unknown))
        if rows is None and states:
            found = np.array([self._judged[state] for state in states], dtype=np.int64)
            self.capacity[:] = found[:, 0]
            self.open[:] = np.where(found[:, 0] > 0, found[:, 1], LOWEST)
            return
        for row, state in zip(where, states, strict=True):
            room, score = self._judged[state]
            self.capacity[row] = room
            self.open[row] = score if room else LOWEST

    def _judge(self, ledger: Ledger, scorer: Scorer, rows: IntArray, states: list[int]) -> None:
        fits = fit(ledger, self._shape, rows, self._tenancy)
        room = capacity(ledger, self._shape, rows, fits, distinct=self.distinct)
        scores = scorer.score(ledger, self._shape, rows, fits)
        for place, state in enumerate(states):
            self._judged[state] = int(room[place]), int(scores.node[place])
            self._fits[state] = fits[place]
            self._gpu[state] = scores.gpu[place]


class Room:
    def __init__(self, ledger: Ledger, scorer: Scorer) -> None:
        self.ledger = ledger
        self.scorer = scorer
        self._views: dict[tuple[Shape, Tenancy, bool], View] = {}
        self._numbers: dict[bytes, int] = {}
        self._states: IntArray = np.zeros(len(ledger.packed), dtype=np.int64)
        """[N] number of the state that each row is in."""
        self._seen = len(ledger.changes)
        self._number(range(len(ledger.packed)))

    def view(self, shape: Shape, tenancy: Tenancy, *, distinct: bool = True) -> View:
        """The shape's view, up to date."""
        changes = self.ledger.changes
        if self._seen < len(changes):
            self._number(changes[self._seen :])
            self._seen = len(changes)
        key = (shape, _ANYBODY if shape.whole else tenancy, distinct)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = View(shape, key[1], distinct=distinct, states=self._states)
            view.refresh(self.ledger, self.scorer, None)
        elif view.seen < len(changes):
            changed = changes[view.seen :]
            view.refresh(self.ledger, self.scorer, changed if len(changed) == 1 else sorted(set(changed)))
        view.seen = len(changes)
        return view

    def _number(self, rows: Sequence[int]) -> None:
        packed, numbers = self.ledger.packed, self._numbers
        for row in rows:
            self._states[row] = numbers.setdefault(packed[row].tobytes(), len(numbers))
