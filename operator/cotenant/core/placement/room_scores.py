"""Scores of one share on every GPU that has room for it, whoever holds the rest: what all its tenants choose from.

For shapes whose GPUs are scored one by one (`ScoreScope.GPU`) a tenant's best GPU of a row is the best of those here
that it may share. So a row that was written is scored once, and each tenant only looks up which GPUs are its own.
"""

from __future__ import annotations

from array import array
from typing import Protocol

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.gpus.row_reductions import counts
from cotenant.core.placement.score_book import ScoreBook
from cotenant.core.placement.shapes import Shape

LOWEST = np.iinfo(np.int64).min
FEW = 8
"""Rows that are looked up by their states; more are judged together."""


class RoomyLedger(Protocol):
    """A ledger, with what is kept of it for all shapes."""

    ledger: Ledger
    book: ScoreBook

    def roomy(self, shape: Shape) -> BoolArray:
        """[N, G] GPUs of any class that have what one of the shape's GPUs takes, whoever holds the rest."""
        ...

    def states(self) -> IntArray:
        """[N] numbers of the states that the rows are in now."""
        ...


class RoomScores:
    __slots__ = ("_scores", "_seen", "_shape", "_source")

    def __init__(self, source: RoomyLedger, shape: Shape) -> None:
        self._source, self._shape = source, shape
        self._scores: IntArray = np.full(source.ledger.inventory.kind.shape, LOWEST, dtype=np.int64)
        self._seen = -1
        """Changes of the ledger that the scores follow."""

    def scores(self) -> IntArray:
        """[N, G] as the ledger is now; LOWEST for GPUs without room, and on rows without the CPU or the memory."""
        changes = self._source.ledger.changed_rows
        if self._seen < len(changes):
            height = len(self._scores)
            self._score(np.arange(height) if self._seen < 0 else distinct_rows(changes[self._seen :], height))
            self._seen = len(changes)
        return self._scores

    def _score(self, rows: IntArray) -> None:
        source, ledger, shape = self._source, self._source.ledger, self._shape
        room = source.roomy(shape).take(rows, axis=0)
        able = counts(room) > 0
        able &= ledger.free_pods[rows] > 0
        if shape.cpu_milli:
            able &= ledger.free_cpu[rows] >= shape.cpu_milli
        if shape.host_mib:
            able &= ledger.free_host[rows] >= shape.host_mib
        if not able.all():
            self._scores[rows[~able]] = LOWEST
            rows, room = rows[able], room[able]
        if len(rows):
            _, gpu = source.book.answers(shape).of(ledger, rows, source.states().take(rows), room)
            self._scores[rows] = LOWEST if gpu is None else np.where(room, gpu, LOWEST)


def few_rows(changes: array[int]) -> set[int] | None:
    """The rows, where they are few; else None."""
    rows = set(changes) if len(changes) <= 4 * FEW else None
    return rows if rows is None or len(rows) <= FEW else None


def distinct_rows(changes: array[int], height: int) -> IntArray:
    """Each of the rows once, in ascending order. `height`: rows that there are."""
    if len(changes) <= FEW:
        return np.array(sorted(set(changes)), dtype=np.int64)
    changed = np.zeros(height, dtype=np.bool_)
    changed[np.frombuffer(changes, dtype=np.int64)] = True
    return changed.nonzero()[0]
