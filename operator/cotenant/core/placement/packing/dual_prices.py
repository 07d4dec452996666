"""Prices of shares, under which full GPUs are worth exactly one GPU.

Packing the learned mix of shares into as few GPUs as possible is the cutting-stock problem. Its linear program

    min Σ_p x_p   so that   Σ_p a_ps · x_p ≥ d_s for every size s,   x ≥ 0      (p: a set of shares that fits one GPU)

has dual prices u_s with `Σ_s a_ps · u_s ≤ 1` for every p: the part of a GPU that one share of size s costs when all is
packed best (Gilmore and Gomory, 1961). A share of 810 costs a whole GPU when nothing fits beside it, 470 costs a half.
With the prices, the value of a residual is the best that it can still hold, by an unbounded knapsack.

Arithmetic: element-wise IEEE operations in one order, then integers in millionths of a GPU. No BLAS, so results are the
same on every machine. Cached by mix.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cotenant.core.gpus.inventory import IntArray
from cotenant.core.model.objects import WHOLE

FloatArray: TypeAlias = npt.NDArray[np.float64]

UNIT = 1_000_000
"""One GPU in prices."""
_TOLERANCE = 1e-9
_PIVOTS = 400
"""Far above what a mix needs (about three per size); a bound, not a setting."""


@lru_cache(maxsize=64)
def dual_prices(demand: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """Dual price in UNIT for each (size in milli, weight > 0); sizes are distinct and at most WHOLE."""
    sizes = np.array([size for size, _ in demand], dtype=np.int64)
    inverse = np.diag(1.0 / (WHOLE // sizes))
    """Of the basis, whose first columns are GPUs full of one size."""
    used = np.array([weight for _, weight in demand], dtype=np.float64) * np.diag(inverse)
    for _ in range(_PIVOTS):
        dual = inverse.sum(axis=0)
        value, pattern = _best_pattern(np.maximum(dual, 0.0), sizes)
        if value <= 1.0 + _TOLERANCE:
            break
        column = (inverse * pattern).sum(axis=1)
        rising = column > _TOLERANCE
        ratio = np.where(rising, used / np.where(rising, column, 1.0), np.inf)
        leave = int(ratio.argmin())
        step = ratio[leave]
        used = np.maximum(used - step * column, 0.0)
        used[leave] = step
        pivot = inverse[leave] / column[leave]
        inverse = inverse - column[:, None] * pivot
        inverse[leave] = pivot
    return tuple(int(price) for price in np.floor(np.maximum(inverse.sum(axis=0), 0.0) * UNIT + 0.5))


def _best_pattern(dual: FloatArray, sizes: IntArray) -> tuple[float, FloatArray]:
    """The set of shares of most value that fits one GPU, as counts per size."""
    best = np.zeros(WHOLE + 1)
    chosen = np.full(WHOLE + 1, -1, dtype=np.int64)
    for index in np.argsort(-dual / sizes, kind="stable"):
        better = add_item(best, int(sizes[index]), dual[index])
        chosen[better > best + _TOLERANCE] = index
        best = better
    pattern = np.zeros(len(sizes))
    left = WHOLE
    while left > 0 and chosen[left] >= 0:
        pattern[chosen[left]] += 1
        left -= int(sizes[chosen[left]])
    return float((pattern * dual).sum()), pattern


def add_item(best: FloatArray, size: int, value: FloatArray | float) -> FloatArray:
    """One step of the unbounded knapsack over the last axis: `best`, with any number of items of `size` besides.

    `best'[r] = max_k best[r − k·size] + k·value`: along each residue class of `size`, take k·value off, run the
    maximum, put it back. `value` has one entry for each leading axis.
    """
    levels = best.shape[-1]
    depth = -(-levels // size)
    padded = np.full((*best.shape[:-1], depth * size), -np.inf)
    padded[..., :levels] = best
    steps = np.arange(depth)[:, None] * np.asarray(value, dtype=np.float64)[..., None, None]
    chains = padded.reshape(*best.shape[:-1], depth, size) - steps
    filled: FloatArray = np.maximum.accumulate(chains, axis=-2) + steps
    return filled.reshape(padded.shape)[..., :levels]
