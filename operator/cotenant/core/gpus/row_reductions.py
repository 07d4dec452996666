"""Maximum and count over the GPUs of each node, faster than numpy's own for many rows of few columns.

numpy reduces the last axis row by row, at some 50 ns each. Reducing the first axis of a transposed copy takes a tenth
of that. Entries are integers or truth values, so the order makes no difference.
"""

from __future__ import annotations

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray

_FEW = 16
"""Rows for which a copy does not pay."""
_WIDEST = int(np.iinfo(np.uint8).max)


def most(array: IntArray) -> IntArray:
    """[R] the largest of each row of [R, G], which has at least one column."""
    found: IntArray = array.max(axis=1) if len(array) < _FEW else np.ascontiguousarray(array.T).max(axis=0)
    return found


def counts(mask: BoolArray) -> IntArray:
    """[R] how many of each row of [R, G] are true."""
    if len(mask) < _FEW or mask.shape[1] > _WIDEST:
        few: IntArray = mask.sum(axis=1)
        return few
    columns = np.ascontiguousarray(mask.T).view(np.uint8)
    found: IntArray = columns.sum(axis=0, dtype=np.uint8).astype(np.int64)
    return found
