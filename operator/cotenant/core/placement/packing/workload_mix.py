"""The workload that is likely to come next, learned from what is queued, running and ran lately.

The demands come from the snapshot (`DemandHistory`); waiting jobs are among them. A prior of whole GPUs and even shares
counts as much as a few jobs. The mix is built once per cycle.

The heaviest shapes are kept as they are. The others are merged by classes and count, so that many different jobs of one
class still count as demand for it. Sizes of shares are never averaged, because packing is about which sizes add up to
one GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray, Inventory
from cotenant.core.model.objects import WHOLE
from cotenant.core.placement.shapes import Demand, Shape

EXACT = 28
"""Shapes kept as they are, the heaviest; the rest are merged by classes and count."""
GROUPS = 20
"""Merged shapes kept at most."""
SIZES = 40
"""Distinct share sizes that are priced."""
PARTS = 1_000_000
"""Weights are integers that sum to about this."""
_RARE = PARTS // 1000
"""Sizes and groups below this weight are not worth their time."""
_PRIOR_WEIGHT = 6
"""Weight of the prior, in jobs."""
_PRIOR_SHARES = (WHOLE, 500, 333, 250)


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadMix:
    """M shapes over K kinds, and shares of single GPUs.

    Sizes are milli of the kind's GPU, rounded up, 0 where the kind may not serve.
    """

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
    parts: tuple[Shape, ...]
    """Shares of single GPUs: sizes as they are, of each size and classes the one with the least CPU."""
    part_weight: tuple[int, ...]
    """Of `parts`, sums to about PARTS."""

    @classmethod
    def of(cls, demands: Sequence[Demand], inventory: Inventory) -> WorkloadMix:
        every = _shares_of_all([*_prior(inventory), *_seen(demands, inventory)])
        kept = _condensed(every)
        parts = _parts(every)
        shapes = tuple(kept)
        memory, compute, allowed = sizes(shapes, inventory)
        return cls(
            shapes=shapes,
            weight=np.array([kept[shape] for shape in shapes], dtype=np.int64),
            memory=memory,
            compute=compute,
            allowed=allowed,
            count=np.array([shape.count for shape in shapes], dtype=np.int64),
            cpu=np.array([shape.cpu_milli for shape in shapes], dtype=np.int64),
            host=np.array([shape.host_mib for shape in shapes], dtype=np.int64),
            parts=tuple(parts),
            part_weight=tuple(parts.values()),
        )

    @property
    def size(self) -> IntArray:
        """[M] milli-GPU of one of the shape's GPUs: the larger dimension, on the kind where it is smallest."""
        return smallest(self.memory, self.compute, self.allowed)


def sizes(shapes: tuple[Shape, ...], inventory: Inventory) -> tuple[IntArray, IntArray, BoolArray]:
    """([K, M] milli of memory, [K, M] milli of compute, [K, M] allowed) of one of each shape's GPUs."""
    needs = [shape.per_kind(inventory) for shape in shapes]
    kinds = np.array([max(1, kind.memory_mib) for kind in inventory.kinds], dtype=np.int64)
    flat = (len(shapes), len(kinds))
    memory = np.array([mib for mib, _, _ in needs], dtype=np.int64).reshape(flat).T
    compute = np.array([milli for _, milli, _ in needs], dtype=np.int64).reshape(flat).T
    allowed = np.array([serves for _, _, serves in needs], dtype=np.bool_).reshape(flat).T
    return np.where(allowed, -(-memory * WHOLE // kinds[:, None]), 0), np.where(allowed, compute, 0), allowed


def smallest(memory: IntArray, compute: IntArray, allowed: BoolArray) -> IntArray:
    """[M] the larger of the two dimensions, on the kind where that is smallest."""
    larger: IntArray = np.where(allowed, np.maximum(memory, compute), WHOLE).min(axis=0, initial=WHOLE)
    return larger


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
    cpu, host = int(inventory.cpu_milli.sum()) // gpus, int(inventory.host_mib.sum()) // gpus
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


def _shares_of_all(demands: list[tuple[Shape, int]]) -> dict[Shape, int]:
    """Weights in PARTS. Shapes that differ in host memory only are one, with its mean. Scratch space is not counted."""
    weights: dict[Shape, int] = {}
    memory: dict[Shape, int] = {}
    for shape, weight in demands:
        bare = replace(shape, host_mib=0, scratch_mib=0)
        weights[bare] = weights.get(bare, 0) + weight
        memory[bare] = memory.get(bare, 0) + weight * shape.host_mib
    total = sum(weights.values())
    return {
        replace(shape, host_mib=memory[shape] // weight): weight * PARTS // total for shape, weight in weights.items()
    }


def _condensed(every: dict[Shape, int]) -> dict[Shape, int]:
    """The heaviest shapes as they are; the others as one mean shape per (count, classes). In order of shape."""
    order = sorted(every, key=lambda shape: (-every[shape], shape))
    kept = {shape: every[shape] for shape in order[:EXACT]}
    groups: dict[object, list[Shape]] = {}
    for shape in order[EXACT:]:
        given = (shape.memory_mib > 0, shape.memory_milli > 0, shape.compute_milli > 0)
        groups.setdefault((shape.count, shape.whole, shape.classes, given), []).append(shape)
    merged = [(sum(every[shape] for shape in group), _mean(group, every)) for group in groups.values()]
    for weight, shape in sorted(merged, key=lambda pair: (-pair[0], pair[1]))[:GROUPS]:
        if weight >= _RARE:
            kept[shape] = kept.get(shape, 0) + weight
    return dict(sorted(kept.items()))


def _mean(group: list[Shape], weights: dict[Shape, int]) -> Shape:
    total = max(1, sum(weights[shape] for shape in group))

    def mean(amount: Callable[[Shape], int]) -> int:
        return sum(amount(shape) * max(1, weights[shape]) for shape in group) // total

    return replace(
        group[0],
        memory_mib=mean(lambda shape: shape.memory_mib),
        memory_milli=min(WHOLE, mean(lambda shape: shape.memory_milli)),
        compute_milli=min(WHOLE, mean(lambda shape: shape.compute_milli)),
        cpu_milli=mean(lambda shape: shape.cpu_milli),
        host_mib=mean(lambda shape: shape.host_mib),
    )


def _parts(every: dict[Shape, int]) -> dict[Shape, int]:
    """Shares of single GPUs, the heaviest sizes. Of equal size and classes the one with the least CPU stands
    for all: a GPU that cannot take it can take none of them."""
    weights: dict[Shape, int] = {}
    least: dict[Shape, int] = {}
    for shape, weight in every.items():
        cpu = shape.cpu_milli // shape.count
        part = replace(shape, count=1, cpu_milli=0, host_mib=0)
        weights[part] = weights.get(part, 0) + weight * shape.count
        if weight >= _RARE:
            least[part] = min(cpu, least.get(part, cpu))
    order = sorted(least, key=lambda part: (-weights[part], part))[:SIZES]
    return {replace(part, cpu_milli=least[part]): weights[part] for part in sorted(order)}
