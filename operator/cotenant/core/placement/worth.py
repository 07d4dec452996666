"""Tables of what a GPU with so much free is good for: the packed worth at each price of CPU, and workers of each shape.

One row per (kind, milli free), so that judging a node is looking its GPUs up and adding. Kinds that are the same to
every shape share their rows' computation; tables are kept while sizes, prices and CPU of the mix stay the same, which
they do over many cycles. Called by `fragmentation`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np

from cotenant.core.inventory import IntArray
from cotenant.core.model import WHOLE
from cotenant.core.placement.mix import Mix
from cotenant.core.placement.prices import FloatArray, fill, prices

LEVELS = WHOLE + 1

_Item: TypeAlias = tuple[int, int, int]
"""(size in milli, price, CPU) of a shape on one kind; size 0: not allowed there."""


def tables(mix: Mix, sizes: IntArray, q: FloatArray) -> FloatArray:
    """[K · LEVELS, Q + M] if only the dimension of `sizes` ([K, M]) counted. Read-only."""
    price = _prices(mix)
    cpu = (mix.cpu // np.maximum(mix.count, 1)).tolist()
    kinds = tuple(
        tuple(zip(row, price, cpu, strict=True)) for row in np.where(mix.allowed, np.maximum(sizes, 1), 0).tolist()
    )
    return _tables(kinds, tuple(q.tolist()))


@lru_cache(maxsize=8)
def _tables(kinds: tuple[tuple[_Item, ...], ...], q: tuple[float, ...]) -> FloatArray:
    made = np.concatenate([_table(kind, q) for kind in kinds or ((),)])
    made.flags.writeable = False
    return made


@lru_cache(maxsize=32)
def _table(items: tuple[_Item, ...], q: tuple[float, ...]) -> FloatArray:
    """[LEVELS, Q + M] for one kind."""
    table = np.zeros((LEVELS, len(q) + len(items)))
    level = np.arange(LEVELS, dtype=np.int64)
    best = np.zeros((len(q), LEVELS))
    for size in sorted({size for size, _, _ in items} - {0}):
        alike = np.array([(price, cpu) for other, price, cpu in items if other == size], dtype=np.float64)
        net = np.maximum(alike[:, :1] - alike[:, 1:] * np.array(q), 0.0)
        best = fill(best, size, net.max(axis=0))
    table[:, : len(q)] = best.T
    for index, (size, _, _) in enumerate(items):
        if size:
            table[:, len(q) + index] = level // size
    return table


def _prices(mix: Mix) -> list[int]:
    """[M] price of one GPU's part of each shape."""
    size = mix.size.tolist()
    demand: dict[int, int] = {WHOLE: 1}
    for milli, weight, count in zip(size, mix.weight.tolist(), mix.count.tolist(), strict=True):
        demand[milli] = demand.get(milli, 0) + weight * count
    ordered = tuple(sorted(((milli, _rough(weight)) for milli, weight in demand.items()), reverse=True))
    by_size = dict(zip((milli for milli, _ in ordered), prices(ordered), strict=True))
    return [by_size[milli] for milli in size]


def _rough(weight: int) -> int:
    """The three leading bits: prices move little with weights, and equal questions have known answers."""
    spare = max(0, weight.bit_length() - 3)
    return max(1, weight >> spare << spare)
