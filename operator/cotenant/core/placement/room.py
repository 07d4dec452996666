"""A ledger with what was computed about it: per shape, where it fits, how often, and how good each place is.

Scores are kept per (shape, tenancy) and only rows written since are judged again, so a decision costs one row of
scoring and one argmax, whatever the size of the cluster. Made once per ledger and cycle; used by `gang`, trials and
forecasts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.core.inventory import BoolArray, IntArray
from cotenant.core.ledger import Ledger
from cotenant.core.model import Sharing
from cotenant.core.placement.fitting import Tenancy, capacity, fit
from cotenant.core.placement.scoring import Scorer
from cotenant.core.placement.shapes import Shape

_Key = tuple[Shape, Tenancy, bool]
_ANYBODY = Tenancy(-1, Sharing.NEVER)
"""Whole GPUs must be empty, so they look the same to every tenant."""


@dataclass(slots=True, eq=False)
class View:
    """Arrays over all rows for one shape; read-only outside this module."""

    fits: BoolArray
    capacity: IntArray
    score: IntArray
    gpu: IntArray
    seen: int
    """How many of the ledger's changes are in here."""


class Room:
    def __init__(self, ledger: Ledger, scorer: Scorer) -> None:
        self.ledger = ledger
        self.scorer = scorer
        self._views: dict[_Key, View] = {}
        self._all = np.arange(len(ledger.inventory.nodes), dtype=np.int64)

    def view(self, shape: Shape, tenancy: Tenancy, *, distinct: bool = True) -> View:
        key = (shape, _ANYBODY if shape.whole else tenancy, distinct)
        view = self._views.get(key)
        changes = self.ledger.changes
        if view is None:
            view = self._views[key] = self._judge_all(key)
        elif view.seen < len(changes):
            self._judge_rows(view, key, changes[view.seen :])
            view.seen = len(changes)
        return view

    def _judge_all(self, key: _Key) -> View:
        shape, tenancy, distinct = key
        fits = fit(self.ledger, shape, self._all, tenancy)
        scores = self.scorer.score(self.ledger, shape, self._all, fits)
        return View(
            fits=fits,
            capacity=capacity(self.ledger, shape, self._all, fits, distinct=distinct),
            score=scores.node,
            gpu=scores.gpu,
            seen=len(self.ledger.changes),
        )

    def _judge_rows(self, view: View, key: _Key, changed: list[int]) -> None:
        shape, tenancy, distinct = key
        rows = np.array(changed if len(changed) == 1 else sorted(set(changed)), dtype=np.int64)
        fits = fit(self.ledger, shape, rows, tenancy)
        scores = self.scorer.score(self.ledger, shape, rows, fits)
        view.fits[rows] = fits
        view.capacity[rows] = capacity(self.ledger, shape, rows, fits, distinct=distinct)
        view.score[rows] = scores.node
        view.gpu[rows] = scores.gpu
