"""What is likely to be asked for next, learned from what is queued, running and ran lately.

No oracle: the demands come from the snapshot (jobs that could not start stay in them, so backlog keeps its weight). A
prior of a few whole GPUs and even shares stands in until enough was seen. Built once per cycle; read by `prices`,
`scarcity` and `fragmentation`.

Shapes are kept by weight until COVER of all weight is kept; an unlimited tail would cost time and teach nothing.
Example: 90 × whole, 8 × half, 2 × tenth → the tenth falls out at COVER = 97 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.core.inventory import BoolArray, IntArray, Inventory
from cotenant.core.model import WHOLE
from cotenant.core.placement.shapes import Demand, Shape

COVER = 970
"""Permille of the weight that the kept shapes have."""
MOST = 48
"""Shapes kept at most."""
PARTS = 1_000_000
"""Weights are integers that sum to about this."""
_PRIOR_WEIGHT = 6
"""What the prior weighs, in jobs."""
_PRIOR_SHARES = (WHOLE, 500, 333, 250)


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """M shapes over K kinds. Sizes are milli of the kind's GPU, rounded up, 0 where the kind may not serve."""

    shapes: tuple[Shape, ...]
    weight: IntArray
    """[M], sums to about PARTS."""
    memory: IntArray
    """[K, M] milli of the kind's memory."""
    compute: IntArray
    """[K, M] milli."""
    allowed: BoolArray
    """[K, M]"""
    count: IntArray
    """[M] GPUs per worker."""
    cpu: IntArray
    """[M] milli-CPU per worker."""
    host: IntArray
    """[M] MiB per worker."""

    @classmethod
    def of(cls, demands: Sequence[Demand], inventory: Inventory) -> Mix:
        kept = _heaviest([*_prior(inventory), *_seen(demands, inventory)])
        shapes = tuple(shape for shape, _ in kept)
        total = max(1, sum(weight for _, weight in kept))
        needs = [shape.needs(inventory) for shape in shapes]
        kinds = np.array([max(1, kind.memory_mib) for kind in inventory.kinds], dtype=np.int64)
        allowed = np.array([serves for _, _, serves in needs], dtype=np.bool_).reshape(len(shapes), len(kinds)).T
        memory = np.array([mib for mib, _, _ in needs], dtype=np.int64).reshape(len(shapes), len(kinds)).T
        compute = np.array([milli for _, milli, _ in needs], dtype=np.int64).reshape(len(shapes), len(kinds)).T
        return cls(
            shapes=shapes,
            weight=np.array([weight * PARTS // total for _, weight in kept], dtype=np.int64),
            memory=np.where(allowed, -(-memory * WHOLE // kinds[:, None]), 0),
            compute=np.where(allowed, compute, 0),
            allowed=allowed,
            count=np.array([shape.count for shape in shapes], dtype=np.int64),
            cpu=np.array([shape.cpu_milli for shape in shapes], dtype=np.int64),
            host=np.array([shape.host_mib for shape in shapes], dtype=np.int64),
        )

    @property
    def size(self) -> IntArray:
        """[M] milli-GPU of one of the shape's GPUs: the larger dimension, on the kind where it is smallest."""
        larger = np.where(self.allowed, np.maximum(self.memory, self.compute), WHOLE)
        smallest: IntArray = larger.min(axis=0, initial=WHOLE)
        return smallest

    @property
    def even(self) -> bool:
        """Every shape asks as much of memory as of compute."""
        return bool((np.abs(self.memory - self.compute) <= 1).all())


def _seen(demands: Sequence[Demand], inventory: Inventory) -> list[tuple[Shape, int]]:
    """GPU shapes that some kind here may serve, weights as thousandths of a job."""
    return [
        (shape, max(1, round(weight * 1000)))
        for shape, weight in demands
        if shape.count and weight > 0 and any(shape.allows(kind) for kind in inventory.kinds)
    ]


def _prior(inventory: Inventory) -> list[tuple[Shape, int]]:
    """Even shares with their part of the CPU and host memory that the cluster has per GPU."""
    gpus = max(1, int((inventory.kind >= 0).sum()))
    cpu, host = int(inventory.cpu.sum()) // gpus, int(inventory.host.sum()) // gpus
    each = _PRIOR_WEIGHT * 1000 // len(_PRIOR_SHARES)
    return [
        (
            Shape(
                whole=share == WHOLE,
                memory_milli=0 if share == WHOLE else share,
                cpu_milli=cpu * share // (2 * WHOLE),
                host_mib=host * share // (2 * WHOLE),
            ),
            each,
        )
        for share in _PRIOR_SHARES
    ]


def _heaviest(demands: list[tuple[Shape, int]]) -> list[tuple[Shape, int]]:
    """By weight, ties by shape, until COVER is reached or MOST are kept; in order of shape.

    Shapes that differ in host memory only are one, with their mean.
    """
    merged: dict[Shape, int] = {}
    memory: dict[Shape, int] = {}
    for shape, weight in demands:
        bare = replace(shape, host_mib=0)
        merged[bare] = merged.get(bare, 0) + weight
        memory[bare] = memory.get(bare, 0) + weight * shape.host_mib
    total = sum(merged.values())
    kept: list[tuple[Shape, int]] = []
    held = 0
    for shape, weight in sorted(merged.items(), key=lambda item: (-item[1], item[0])):
        if len(kept) >= MOST or held * 1000 >= COVER * total:
            break
        kept.append((replace(shape, host_mib=memory[shape] // weight), weight))
        held += weight
    return sorted(kept)
