"""Scores of one shape on the rows of one ledger: a row is scored when it is first asked for, and again after it was
written. Tenants and class options share them, because most scores depend on neither (`ScoreScope`).
"""

from __future__ import annotations

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement.scoring import LOWEST, Scorer, ScoreScope
from cotenant.core.placement.shapes import Shape

_STATES = 1_024
"""States of single rows whose scores are kept."""


class ShapeScores:
    """Of shapes whose scores depend on the set of GPUs that fit, nothing is kept."""

    __slots__ = ("_known", "_ledger", "_of_states", "_scope", "_scorer", "_scores", "_seen", "_shape")

    def __init__(self, ledger: Ledger, scorer: Scorer, shape: Shape) -> None:
        self._scorer, self._shape, self._ledger, self._scope = scorer, shape, ledger, scorer.scope(shape)
        height, width = ledger.inventory.kind.shape
        self._scores: IntArray = np.zeros((height, width if self._scope is ScoreScope.GPU else 1), dtype=np.int64)
        """[N, 1] of rows, or [N, G] of GPUs."""
        self._known: BoolArray = np.zeros(height, dtype=np.bool_)
        self._seen = len(ledger.changed_rows)
        self._of_states: dict[bytes, IntArray] = {}
        """State of a row (`Ledger.state`) → its scores."""

    def of(self, rows: IntArray, fits: BoolArray, room: BoolArray) -> tuple[IntArray, IntArray | None]:
        """([R] score of each row, [R, G] scores of its GPUs, or None if all are equally good). `fits`: [R, G] GPUs that
        may serve the request. `room`: [N, G] GPUs that have room for the shape, whoever may share them."""
        if self._scope is ScoreScope.FIT:
            scores = self._scorer.score(self._ledger, self._shape, rows, fits)
            return scores.node, scores.gpu
        if self._seen < len(self._ledger.changed_rows):
            self._known[self._ledger.written_since(self._seen)] = False
            self._seen = len(self._ledger.changed_rows)
        unknown = rows[~self._known.take(rows)]
        if len(unknown):
            self._score(unknown, room.take(unknown, axis=0))
        found = self._scores.take(rows, axis=0)
        if self._scope is ScoreScope.NODE:
            return found[:, 0], None
        return np.where(fits, found, LOWEST).max(axis=1, initial=LOWEST), found

    def _score(self, rows: IntArray, room: BoolArray) -> None:
        """A decision and its roll-back bring single rows to states that were scored before, above all on equal nodes:
        to know them makes a decision a third faster there."""
        state = self._ledger.state(rows[0]) if len(rows) == 1 else b""
        found = self._of_states.get(state)
        if found is None:
            scores = self._scorer.score(self._ledger, self._shape, rows, room)
            found = scores.node[:, None] if self._scope is ScoreScope.NODE else scores.gpu
            if state:
                if len(self._of_states) >= _STATES:
                    self._of_states.clear()
                self._of_states[state] = found
        self._scores[rows] = found
        self._known[rows] = True
