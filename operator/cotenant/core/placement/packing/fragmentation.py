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

from cotenant.core.gpus.inventory import BoolArray, IntArray, Inventory
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.gpus.row_reductions import counts, most
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
_NO_MEMORY = np.int64(1) << 62
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


@dataclass(frozen=True, slots=True, eq=False)
class _NodeSlots:
    """What each node takes by itself."""

    ledger: Ledger
    slots: FloatArray
    """[N, M] workers of each shape of the mix."""
    free: IntArray
    """[N] milli-GPU."""

    def differing(self, ledger: Ledger) -> IntArray | None:
        """Rows in which it may differ; None where the two are not of the same nodes."""
        before, now = self.ledger.inventory, ledger.inventory
        if not before.has_frame_of(now):
            return None
        differ = (self.ledger.packed[:, 1:] != ledger.packed[:, 1:]).any(axis=1)  # without the number of equivalents
        return np.flatnonzero(differ | (before.usable != now.usable).any(axis=1))


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
        self._inventory: Inventory | None = None
        self._taken: dict[Shape, tuple[IntArray, IntArray]] = {}
        """Share → milli of memory and of compute that it takes of a GPU of each kind."""
        self._columns: tuple[IntArray, IntArray, BoolArray]
        self._counted: _NodeSlots | None = None
        """Of these nodes, or as long as it was not asked for of an earlier cycle's."""

    def go_on_from(self, before: Scorer) -> None:
        """Slots are counted anew where nodes differ, if both count slots of the same shapes."""
        if isinstance(before, PackingScorer) and before._slots_follow_from == self._slots_follow_from:
            self._counted = before._counted

    @property
    def _slots_follow_from(self) -> tuple[object, ...]:
        """Beside the nodes."""
        return self._mix.shapes, self._tables.even

    @cached_property
    def _slot_value(self) -> FloatArray:
        """[M] what a slot for each shape of the mix is worth, as scarce as it was in the ledger. Worked out with the
        first score: most cycles of a full cluster score nothing."""
        counted = self._counted = self._count_slots(self._counted)
        slots, free = counted.slots.sum(axis=0), int(counted.free.sum())
        value: FloatArray = slot_value(self._mix, slots.astype(np.int64), free).astype(np.float64)
        return value

    def _count_slots(self, before: _NodeSlots | None) -> _NodeSlots:
        ledger = self._ledger
        rows = None if before is None else before.differing(ledger)
        if before is None or rows is None:
            height = len(ledger.inventory.nodes)
            rows = np.arange(height, dtype=np.int64)
            slots, free = np.zeros((height, len(self._mix.shapes))), np.zeros(height, dtype=np.int64)
        else:
            slots, free = before.slots.copy(), before.free.copy()
        _, first, alike = np.unique(_rows_as_bytes(ledger.packed[rows]), return_index=True, return_inverse=True)
        one = self._read(ledger, rows[first])
        found = np.zeros((len(first), len(self._mix.shapes)))
        for start in range(0, len(first), _CHUNK):
            chunk = np.arange(start, min(start + _CHUNK, len(first)))
            some = one.rows(chunk)
            found[chunk] = self._slots(self._features(some).sum(axis=1), self._bounds(some.cpu, some.host))
        slots[rows] = found[alike.ravel()]
        state = self._read(ledger, rows)
        free[rows] = np.minimum(state.memory, state.compute).sum(axis=1)
        return _NodeSlots(ledger, slots, free)

    def scope(self, shape: Shape) -> ScoreScope:
        if shape.whole and self._plain:
            return ScoreScope.NODE
        return ScoreScope.GPU if shape.count == 1 else ScoreScope.FIT

    def score(self, ledger: Ledger, shape: Shape, rows: IntArray, fit: BoolArray) -> Scores:
        able = (counts(fit) >= shape.count) & (ledger.free_cpu[rows] >= shape.cpu_milli)
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
            gpu = np.where(fit, gpu[every[:, None], first], _NEVER)
            return Scores(node=most(gpu), gpu=gpu)
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
        rows = len(held)
        cpu = np.concatenate([state.cpu, state.cpu - shape.cpu_milli])
        host = np.concatenate([state.host, state.host - shape.host_mib])
        bounds = self._bounds(cpu, host)
        if len(row) > rows:  # all ways on a row leave the same CPU and memory
            of = np.concatenate([np.arange(rows), rows + row])
            cpu, bounds = cpu.take(of), bounds.take(of, axis=0)
        value = self._value(np.concatenate([held, left]), cpu, bounds)
        gain = (value[rows:] - value.take(row)).astype(np.int64)
        little = (state.compute.sum(axis=1) << _CPU_BITS) + state.cpu // WHOLE
        scored: IntArray = (gain << TIE_BITS) - little.take(row)
        return scored

    def _read(self, ledger: Ledger, rows: IntArray) -> _NodeStates:
        kind, divisor, usable = self._columns_of(ledger.inventory)
        cpu, host, memory, compute = ledger.free_amounts(rows)
        return _NodeStates(
            kind=kind.take(rows, axis=0),
            memory=np.maximum(memory * WHOLE // divisor.take(rows, axis=0), 0),
            compute=np.maximum(compute * usable.take(rows, axis=0), 0),
            cpu=cpu,
            host=host,
        )

    def _columns_of(self, inventory: Inventory) -> tuple[IntArray, IntArray, BoolArray]:
        """([N, G] offset of the kind in the tables; [N, G] what milli of its memory are divided by, so that a GPU that
        takes no work has none; [N, G] it takes work)."""
        if self._inventory is not inventory:
            self._inventory, kind = inventory, inventory.kind
            self._columns = kind * LEVELS, np.where(inventory.usable, self._kinds[kind], _NO_MEMORY), inventory.usable
        return self._columns

    def _features(self, state: _NodeStates) -> FloatArray:
        """[R, G, Q + M] of each GPU: packed value for each price of CPU, then workers of each shape."""
        return self._tables.at(state.kind, state.memory, state.compute)

    def _left(self, ledger: Ledger, shape: Shape, state: _NodeStates, row: IntArray, column: IntArray) -> FloatArray:
        """[P, Q + M] features of GPUs once the shape lies on them."""
        if shape.whole:
            return np.zeros((len(row), len(self._cpu_prices) + len(self._mix.shapes)))
        taken = self._taken.get(shape)
        if taken is None:
            mib, milli, _ = shape.per_kind(ledger.inventory)
            taken = self._taken[shape] = -(-mib * WHOLE // self._kinds), milli
        kind = state.kind[row, column]
        number = kind // LEVELS
        memory = state.memory[row, column] - taken[0].take(number)
        compute = state.compute[row, column] - taken[1].take(number)
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
