"""Rows of a ledger that were written, out of the order in which that was noted: the few, or each once."""

from __future__ import annotations

from array import array

import numpy as np

from cotenant.core.gpus.inventory import IntArray

FEW = 8
"""Rows that are looked up by their states; more are judged together."""


def few_rows(changes: array[int]) -> set[int] | None:
    """The rows if they are few, else None."""
    rows = set(changes) if len(changes) <= 4 * FEW else None
    return rows if rows is None or len(rows) <= FEW else None


def distinct_rows(changes: array[int], height: int) -> IntArray:
    """Each of the rows once, in ascending order. `height`: rows that there are."""
    if len(changes) <= FEW:
        return np.array(sorted(set(changes)), dtype=np.int64)
    changed = np.zeros(height, dtype=np.bool_)
    changed[np.frombuffer(changes, dtype=np.int64)] = True
    return changed.nonzero()[0]
