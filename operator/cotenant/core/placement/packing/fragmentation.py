"""Score of a placement: how much value the node keeps. The fragmentation gradient, with prices.

Weng et al. (USENIX ATC 2023) score a placement by how much less of the node a random next pod could use. Two things
are better here. The next pod is not the last: the value of a residual is what can still be packed into it, at the
prices of the learned mix (`dual_prices`), as long as the node has CPU for it. And a slot counts more where it is scarce
(`scarcity`).

    value(node) = min_q [ Σ_gpu best_q(residual) + q · cpu ]   +   Σ_m w_m · n_m(node)
    score       = value(after) − value(before)

best_q(r): the most valuable shares that fit a residual r when each costs its price less q per milli-CPU; the minimum
over q is the Lagrangian bound of packing GPUs and CPU of the node together, so a GPU without CPU beside it has no
value, and CPU is dear exactly where it is the shorter of the two. n_m(node): workers of shape m that the node takes by
itself.
Ties: least compute left, then least CPU left; never a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import WHOLE
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.packing.dual_prices import UNIT, FloatArray
from cotenant.core.placement.packing.scarcity import slot_value
from cotenant.core.placement.packing.value_tables import LEVELS, ValueTables
from cotenant.core.placement.packing.workload_mix import WorkloadMix
from cotenant.core.placement.scoring import Scorer, Scores, ScoreScope
from cotenant.core.placement.shapes import Demand, Shape

CPU_PRICES = (0, 3, 9, 17, 34, 70, 140, 275, 700)
"""Prices of CPU (q above) that are tried, in percent of one GPU per CPU that a GPU has beside it on average."""
_NEVER = np.iinfo(np.int64).min // 4
_CHUNK = 256
"""Rows that are scored in one go: what they need stays in the processor's cache."""
_CPU_BITS, _GPU_BITS = 10, 14
TIE_BITS = _CPU_BITS + _GPU_BITS
"""Low bits of a score: ties by what is left of the node."""


@dataclass(frozen=True, slots=True, eq=False)
class _NodeStates:
    """Rows to score, as they are. `level` has one number per (kind, memory, compute) that a GPU can have free."""

    kind: IntArray
    """[R, G] offset of the kind in the tables."""
    memory: IntArray
    """[R, G] free, in milli of the GPU's memory."""
    compute: IntArray
    """[R, G] free."""
    cpu: IntArray
    host: IntArray

    def rows(self, rows: IntArray) -> _NodeStates:
        return _NodeStates(self.kind[rows], self.memory[rows], self.compute[rows], self.cpu[rows], self.host[rows])

    def first_alike(self, fit: BoolArray) -> IntArray:
        """[R, G] the first column among those that fit whose GPU is in the same state: one score serves them all."""
        state = (self.kind + self.memory) * LEVELS + self.compute
        alike = (state[:, :, None] == state[:, None, :]) & fit[:, None, :]
        first: IntArray = alike.argmax(axis=2)
        return first


@dataclass(frozen=True, slots=True)
class Packing:
    """The placer: learns a mix once per cycle, then scores rows with tables."""

    def prepare(self, ledger: Ledger, demands: Sequence[Demand]) -> Scorer:
        if not ledger.inventory.kinds:
            return BestFit()  # without a GPU there is nothing to learn about
        return PackingScorer(ledger, WorkloadMix.of(demands, ledger.inventory))


class PackingScorer:
    """Scores under one mix, and under the scarcity of the ledger that it was made from.

    Tables and sums hold integers as float64, far below 2^53: exact, and several times faster than int64.
    """

    def __init__(self, ledger: Ledger, mix: WorkloadMix) -> None:
        self._mix = mix
        self._kinds = np.array([max(1, kind.memory_mib) for kind in ledger.inventory.kinds], dtype=np.int64)
        gpus = max(1, int((ledger.inventory.kind >= 0).sum()))
        per_gpu = max(1, int(ledger.inventory.cpu_milli.sum()) // gpus)
        self._cpu_prices = np.array([percent * UNIT // (100 * per_gpu) for percent in CPU_PRICES], dtype=np.float64)
        self._tables = ValueTables(mix, ledger.inventory, self._cpu_prices)
        self._plain = not ledger.inventory.mixed
        """No node mixes kinds, so any of its whole GPUs is as good as another."""
        self._count = mix.count.astype(np.float64)
        self._cpu = np.maximum(mix.cpu, 1).astype(np.float64)
        self._host = np.maximum(mix.host, 1).astype(np.float64)
        self._ledger = ledger.copy()

    @cached_property
    def _slot_value(self) -> FloatArray:
        """[M] what a slot for each shape of the mix is worth, as scarce as it was in the ledger. Worked out with the
        first score: most cycles of a full cluster score nothing."""
        ledger = self._ledger
        state = self._read(ledger, np.arange(len(ledger.inventory.nodes), dtype=np.int64))
        _, first, alike = np.unique(_rows_as_bytes(ledger.packed), return_index=True, return_counts=True)
        one = state.rows(first)
        slots = alike @ self._slots(self._features(one).sum(axis=1), self._bounds(one.cpu, one.host))
        free = int(np.minimum(state.memory, state.compute).sum())
        value: FloatArray = slot_value(self._mix, slots.astype(np.int64), free).astype(np.float64)
        return value

    def scope(self, shape: Shape) -> ScoreScope:
        if shape.whole and self._plain:
            return ScoreScope.NODE
        return ScoreScope.GPU if shape.count == 1 else ScoreScope.FIT

    def score(self, ledger: Ledger, shape: Shape, rows: IntArray, fit: BoolArray) -> Scores:
        able = (fit.sum(axis=1) >= shape.count) & (ledger.free_cpu[rows] >= shape.cpu_milli)
        able &= ledger.free_host[rows] >= shape.host_mib
        if len(rows) <= _CHUNK and able.all():
            return self._score_rows(ledger, shape, self._read(ledger, rows), fit)
        node = np.full(len(rows), _NEVER, dtype=np.int64)
        gpu = np.full(fit.shape, _NEVER, dtype=np.int64)
        places = np.flatnonzero(able)
        for start in range(0, len(places), _CHUNK):
            chunk = places[start : start + _CHUNK]
            scored = self._score_rows(ledger, shape, self._read(ledger, rows[chunk]), fit[chunk])
            node[chunk], gpu[chunk] = scored.node, scored.gpu
        return Scores(node=node, gpu=gpu)

    def _score_rows(self, ledger: Ledger, shape: Shape, state: _NodeStates, fit: BoolArray) -> Scores:
        """All rows can take the shape. Before and every way after are worked out in one go."""
        features = self._features(state)
        held = features.sum(axis=1)
        every = np.arange(len(held))
        gpu = np.zeros(fit.shape, dtype=np.int64)
        if shape.whole and self._plain:
            left = held - shape.count * features[every, fit.argmax(axis=1)]
            return Scores(node=self._gains(held, left, every, state, shape), gpu=gpu)
        if shape.count == 1:
            first = state.first_alike(fit)
            row, column = np.nonzero(fit & (first == np.arange(fit.shape[1])))
            left = held[row] - features[row, column] + self._left(ledger, shape, state, row, column)
            gpu[row, column] = self._gains(held, left, row, state, shape)
            gpu = np.where(fit, np.take_along_axis(gpu, first, axis=1), _NEVER)
            return Scores(node=gpu.max(axis=1), gpu=gpu)
        row, column = np.nonzero(fit)
        loss = features[row, column] - self._left(ledger, shape, state, row, column)
        preference = np.full(fit.shape, float(_NEVER))
        preference[row, column] = -loss[:, 0]
        inside = _first(preference, shape.count)[row, column]
        left = held.copy()
        np.subtract.at(left, row[inside], loss[inside])
        return Scores(node=self._gains(held, left, every, state, shape), gpu=preference.astype(np.int64))

    def _gains(self, held: FloatArray, left: FloatArray, row: IntArray, state: _NodeStates, shape: Shape) -> IntArray:
        """[P] the score of each way: its gain, then least compute left, then least CPU left. `row`: of which row."""
        cpu = np.concatenate([state.cpu, state.cpu - shape.cpu_milli])
        host = np.concatenate([state.host, state.host - shape.host_mib])
        of = np.concatenate([np.arange(len(held)), len(held) + row])
        value = self._value(np.concatenate([held, left]), cpu[of], self._bounds(cpu, host)[of])
        gain = value[len(held) :] - value[: len(held)][row]
        little = (state.compute.sum(axis=1) << _CPU_BITS) + state.cpu // WHOLE
        scored: IntArray = (gain.astype(np.int64) << TIE_BITS) - little[row]
        return scored

    def _read(self, ledger: Ledger, rows: IntArray) -> _NodeStates:
        inventory = ledger.inventory
        kind, usable = inventory.kind[rows], inventory.usable[rows]
        memory = np.where(usable, ledger.free_memory[rows], 0) * WHOLE // self._kinds[kind]
        compute = np.where(usable, ledger.free_compute[rows], 0)
        return _NodeStates(
            kind=kind * LEVELS,
            memory=np.maximum(memory, 0),
            compute=np.maximum(compute, 0),
            cpu=ledger.free_cpu[rows],
            host=ledger.free_host[rows],
        )

    def _features(self, state: _NodeStates) -> FloatArray:
        """[R, G, Q + M] of each GPU: packed value for each price of CPU, then workers of each shape."""
        return self._tables.at(state.kind, state.memory, state.compute)

    def _left(self, ledger: Ledger, shape: Shape, state: _NodeStates, row: IntArray, column: IntArray) -> FloatArray:
        """[P, Q + M] features of GPUs once the shape lies on them."""
        if shape.whole:
            return np.zeros((len(row), len(self._cpu_prices) + len(self._mix.shapes)))
        mib, milli, _ = shape.per_kind(ledger.inventory)
        kind = state.kind[row, column]
        number = kind // LEVELS
        memory = state.memory[row, column] - -(-mib * WHOLE // self._kinds)[number]
        compute = state.compute[row, column] - milli[number]
        return self._tables.at(kind, np.maximum(memory, 0), np.maximum(compute, 0))

    def _bounds(self, cpu: IntArray, host: IntArray) -> FloatArray:
        """[R, M] workers that the CPU and the host memory allow."""
        bounds: FloatArray = np.minimum(cpu[:, None] / self._cpu, host[:, None] / self._host)
        return np.maximum(np.floor(bounds), 0)

    def _slots(self, held: FloatArray, bounds: FloatArray) -> FloatArray:
        slots: FloatArray = np.minimum(np.floor(held[:, len(self._cpu_prices) :] / self._count), bounds)
        return slots

    def _value(self, held: FloatArray, cpu: IntArray, bounds: FloatArray) -> FloatArray:
        packed = (held[:, : len(self._cpu_prices)] + cpu[:, None] * self._cpu_prices).min(axis=1)
        value: FloatArray = packed + self._slots(held, bounds) @ self._slot_value
        return value


def _rows_as_bytes(packed: IntArray) -> npt.NDArray[np.void]:
    """Equal entries for nodes in equal states."""
    wide = np.ascontiguousarray(packed)
    return wide.view(np.dtype((np.void, wide.shape[1] * wide.itemsize))).ravel()


def _first(preference: FloatArray, count: int) -> BoolArray:
    """[R, G] the `count` GPUs that will be taken: best first, ties to the lower column."""
    order = np.argsort(-preference, axis=1, kind="stable")[:, :count]
    taken = np.zeros(preference.shape, dtype=np.bool_)
    np.put_along_axis(taken, order, values=True, axis=1)
    return taken
