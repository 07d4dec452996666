"""Value of a GPU with so much free: the best packing at each price of CPU, and workers of each shape.

One row per (kind, milli free), so that scoring a node means to look its GPUs up and add. Kinds that look the same to
every shape are computed once. Tables are cached by sizes, prices and CPU of the mix, which stay the same over many
cycles.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray, Inventory
from cotenant.core.model.objects import WHOLE
from cotenant.core.placement.packing.dual_prices import FloatArray, add_item, dual_prices
from cotenant.core.placement.packing.workload_mix import WorkloadMix, sizes, smallest

LEVELS = WHOLE + 1

_Part: TypeAlias = tuple[int, int, int]
"""(size in milli, price, CPU) of a share of one GPU of a kind."""


class ValueTables:
    """One row per kind and milli free: [K · LEVELS, Q + M]."""

    def __init__(self, mix: WorkloadMix, inventory: Inventory, cpu_prices: FloatArray) -> None:
        memory, compute, allowed = sizes(mix.parts, inventory)
        price = part_prices(smallest(memory, compute, allowed).tolist(), mix.part_weight)
        cpu = [part.cpu_milli for part in mix.parts]
        self.even = bool((np.abs(mix.memory - mix.compute) <= 1).all() and (np.abs(memory - compute) <= 1).all())
        grid = tuple(cpu_prices.tolist())
        self._by_compute = _tables(_offers(compute, allowed, price, cpu), _whole(mix.compute, mix.allowed), grid)
        self._by_memory = self._by_compute
        if not self.even:
            self._by_memory = _tables(_offers(memory, allowed, price, cpu), _whole(mix.memory, mix.allowed), grid)

    @property
    def features(self) -> int:
        """Q + M."""
        return int(self._by_compute.shape[1])

    def at(self, kind: IntArray, memory: IntArray, compute: IntArray) -> FloatArray:
        """[..., Q + M]. `kind` is the kind's first row. With two dimensions the worse of both counts."""
        features: FloatArray
        if self.even:
            features = self._by_compute[kind + np.minimum(memory, compute)]
        else:
            features = np.minimum(self._by_memory[kind + memory], self._by_compute[kind + compute])
        return features


def _offers(size: IntArray, allowed: BoolArray, price: list[int], cpu: list[int]) -> tuple[tuple[_Part, ...], ...]:
    """Per kind, shares that may be put on its GPUs."""
    return tuple(
        tuple((milli, u, c) for milli, u, c, fits in zip(row, price, cpu, may, strict=True) if fits)
        for row, may in zip(np.maximum(size, 1).tolist(), allowed.tolist(), strict=True)
    )


def _whole(size: IntArray, allowed: BoolArray) -> tuple[tuple[int, ...], ...]:
    """Per kind, the size of each shape of the mix; 0: not allowed there."""
    return tuple(tuple(row) for row in np.where(allowed, np.maximum(size, 1), 0).tolist())


@lru_cache(maxsize=8)
def _tables(
    offers: tuple[tuple[_Part, ...], ...], shapes: tuple[tuple[int, ...], ...], cpu_prices: tuple[float, ...]
) -> FloatArray:
    kinds = [
        np.concatenate([_packed(parts, cpu_prices), _workers(row)], axis=1)
        for parts, row in zip(offers, shapes, strict=True)
    ]
    made = np.concatenate(kinds) if kinds else np.zeros((LEVELS, len(cpu_prices)))
    made.flags.writeable = False
    return made


@lru_cache(maxsize=64)
def _packed(parts: tuple[_Part, ...], cpu_prices: tuple[float, ...]) -> FloatArray:
    """[LEVELS, Q] the most valuable set of shares that fits each residual, net of CPU at each q."""
    best = np.zeros((len(cpu_prices), LEVELS))
    for size in sorted({size for size, _, _ in parts}):
        alike = np.array([(price, cpu) for other, price, cpu in parts if other == size], dtype=np.float64)
        net = np.maximum(alike[:, :1] - alike[:, 1:] * np.array(cpu_prices), 0.0)
        best = add_item(best, size, net.max(axis=0))
    return best.T


def _workers(row: tuple[int, ...]) -> FloatArray:
    """[LEVELS, M] shares of each shape that fit each residual."""
    level = np.arange(LEVELS, dtype=np.int64)[:, None]
    size = np.array(row, dtype=np.int64)
    return np.where(size > 0, level // np.maximum(size, 1), 0).astype(np.float64)


def part_prices(size: list[int], weights: tuple[int, ...]) -> list[int]:
    """Price of each part."""
    demand: dict[int, int] = {WHOLE: 1}
    for milli, weight in zip(size, weights, strict=True):
        demand[milli] = demand.get(milli, 0) + weight
    ordered = tuple(sorted(((milli, rough_weight(weight)) for milli, weight in demand.items()), reverse=True))
    by_size = dict(zip((milli for milli, _ in ordered), dual_prices(ordered), strict=True))
    return [by_size[milli] for milli in size]


def rough_weight(weight: int) -> int:
    """The three leading bits: prices move little with weights, and equal questions have known answers."""
    spare = max(0, weight.bit_length() - 3)
    return max(1, weight >> spare << spare)
