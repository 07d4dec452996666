"""Score of a placement: how much value the node keeps. The fragmentation gradient, with prices.

Weng et al. (USENIX ATC 2023) score a placement by how much less of the node a random next pod could use. Here two
things differ. The value of what is left of a GPU is the best set of shares that can still be packed into it, not one
pod alone, at the prices of the learned mix (`dual_prices`), as long as the node has CPU for it. And a place for a shape
counts more if the cluster has few places for it (`scarcity`).

    value(node) = min_q [ Σ_gpu best_q(residual) + q · cpu ]   +   Σ_m w_m · n_m(node)
    score       = value(after) − value(before)

best_q(r): the most valuable shares that fit a residual r if each is worth its price less q per milli-CPU. The minimum
over q is the Lagrangian bound of packing GPUs and CPU of the node together: a GPU without CPU beside it has no value,
and CPU has a price only if it is the scarcer of the two. n_m(node): workers of shape m that the node takes by itself.
Ties: least compute left, then least CPU left; never a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import WHOLE
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.packing.dual_prices import UNIT, FloatArray
from cotenant.core.placement.packing.node_values import CHUNK, TIE_BITS, NodeValues
from cotenant.core.placement.packing.scarcity import slot_value
from cotenant.core.placement.packing.value_tables import LEVELS, ValueTables
from cotenant.core.placement.packing.workload_mix import WorkloadMix
from cotenant.core.placement.scoring import Scorer, Scores, ScoreScope
from cotenant.core.placement.shapes import Demand, Shape

CPU_PRICES = (0, 3, 9, 17, 34, 70, 140, 275, 700)
"""Prices of CPU (q above) that are tried, in percent of one GPU per CPU that a GPU has beside it on average."""
_NEVER = np.iinfo(np.int64).min // 4
_LEDGERS = 3
"""Ledgers of which values are kept: a cycle has two, and trials may have one."""


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
        self._values: list[NodeValues] = []
        """Of the ledgers that were scored lately."""
        self._taken: dict[Shape, tuple[IntArray, IntArray]] = {}
        """Share → milli of memory and of compute that it takes of a GPU of each kind."""

    @cached_property
    def _slot_value(self) -> FloatArray:
        """[M] what a slot for each shape of the mix is worth, as scarce as it was in the ledger. Worked out with the
        first score: most cycles of a full cluster score nothing."""
        ledger = self._ledger
        _, one, alike = np.unique(ledger.states(), return_index=True, return_counts=True)
        values = NodeValues(ledger, self._kinds, self._tables, lambda held, *_: np.zeros(len(held)))
        values.refresh(one)
        slots = self._slots(values.held.take(one, axis=0), values.cpu.take(one), values.host.take(one))
        free = np.minimum(values.memory, values.compute).take(one, axis=0).sum(axis=1)
        total = (slots * alike[:, None]).sum(axis=0).astype(np.int64)
        value: FloatArray = slot_value(self._mix, total, int(free @ alike)).astype(np.float64)
        return value

    def scope(self, shape: Shape) -> ScoreScope:
        if shape.whole and self._plain:
            return ScoreScope.NODE
        return ScoreScope.GPU if shape.count == 1 else ScoreScope.FIT

    def score(self, ledger: Ledger, shape: Shape, rows: IntArray, fit: BoolArray) -> Scores:
        able = (fit.sum(axis=1) >= shape.count) & (ledger.free_cpu[rows] >= shape.cpu_milli)
        able &= (ledger.free_host[rows] >= shape.host_mib) & (ledger.free_scratch[rows] >= shape.scratch_mib)
        values = self._values_of(ledger)
        if len(rows) <= CHUNK and able.all():
            values.refresh(rows)
            return self._score_rows(values, shape, rows, fit)
        node = np.full(len(rows), _NEVER, dtype=np.int64)
        gpu = np.full(fit.shape, _NEVER, dtype=np.int64)
        places = np.flatnonzero(able)
        values.refresh(rows[places])
        for start in range(0, len(places), CHUNK):
            chunk = places[start : start + CHUNK]
            scored = self._score_rows(values, shape, rows[chunk], fit[chunk])
            node[chunk], gpu[chunk] = scored.node, scored.gpu
        return Scores(node=node, gpu=gpu)

    def _score_rows(self, values: NodeValues, shape: Shape, rows: IntArray, fit: BoolArray) -> Scores:
        """All rows can take the shape. Every way after is worked out in one go."""
        every = np.arange(len(rows))
        gpu = np.zeros(fit.shape, dtype=np.int64)
        if shape.whole and self._plain:
            loss = shape.count * self._loss(values, shape, rows, fit.argmax(axis=1))
            return Scores(node=self._gains(values, rows, loss, every, shape), gpu=gpu)
        if shape.count == 1:
            first = values.first.take(rows, axis=0)
            row, column = _first_of(fit, first)
            gpu[row, column] = self._gains(values, rows, self._loss(values, shape, rows[row], column), row, shape)
            gpu = np.where(fit, gpu[every[:, None], first], _NEVER)
            return Scores(node=gpu.max(axis=1), gpu=gpu)
        row, column = np.nonzero(fit)
        loss = self._loss(values, shape, rows[row], column)
        preference = np.full(fit.shape, float(_NEVER))
        preference[row, column] = -loss[:, 0]
        inside = _first(preference, shape.count)[row, column]
        loss = loss[inside].reshape(len(rows), shape.count, self._tables.features).sum(axis=1)
        return Scores(node=self._gains(values, rows, loss, every, shape), gpu=preference.astype(np.int64))

    def _gains(self, values: NodeValues, rows: IntArray, loss: FloatArray, row: IntArray, shape: Shape) -> IntArray:
        """[P] the score of each way: its gain, then least compute left, then least CPU left. `row`: of which row."""
        of = rows.take(row)
        cpu, host = values.cpu.take(rows) - shape.cpu_milli, values.host.take(rows) - shape.host_mib
        after = self._value(values.held.take(of, axis=0) - loss, cpu, host, row if len(row) > len(rows) else None)
        gain = (after - values.value.take(of)).astype(np.int64)
        scored: IntArray = (gain << TIE_BITS) - values.little.take(of)
        return scored

    def _values_of(self, ledger: Ledger) -> NodeValues:
        for values in self._values:
            if values.ledger is ledger:
                return values
        values = NodeValues(ledger, self._kinds, self._tables, self._value)
        self._values = [values, *self._values[: _LEDGERS - 1]]
        return values

    def _loss(self, values: NodeValues, shape: Shape, rows: IntArray, columns: IntArray) -> FloatArray:
        """[P, Q + M] by how much the features of GPUs are less once the shape lies on them."""
        at = (rows, columns)
        kind, memory, compute = values.kind[at], values.memory[at], values.compute[at]
        before = self._tables.at(kind, memory, compute)
        if shape.whole:
            return before
        taken = self._taken.get(shape)
        if taken is None:
            mib, milli, _ = shape.per_kind(values.ledger.inventory)
            taken = self._taken[shape] = -(-mib * WHOLE // self._kinds), milli
        number = kind // LEVELS
        memory, compute = memory - taken[0].take(number), compute - taken[1].take(number)
        return before - self._tables.at(kind, np.maximum(memory, 0), np.maximum(compute, 0))

    def _value(self, held: FloatArray, cpu: IntArray, host: IntArray, of: IntArray | None = None) -> FloatArray:
        """[P] value of nodes with these features of their GPUs and so much CPU and host memory. `of`: the place of each
        in `cpu` and `host`, if several ways on a row share one."""
        slots = self._slots(held, cpu, host, of)
        cpu = cpu if of is None else cpu.take(of)
        packed = np.ascontiguousarray((held[:, : len(self._cpu_prices)] + cpu[:, None] * self._cpu_prices).T)
        value: FloatArray = packed.min(axis=0) + slots @ self._slot_value
        return value

    def _slots(self, held: FloatArray, cpu: IntArray, host: IntArray, of: IntArray | None = None) -> FloatArray:
        """[P, M] workers of each shape that GPUs, CPU and host memory allow. The arguments are those of `_value`."""
        bounds: FloatArray = np.maximum(cpu, 0)[:, None] / self._cpu
        np.minimum(bounds, np.maximum(host, 0)[:, None] / self._host, out=bounds)
        if of is not None:
            bounds = bounds.take(of, axis=0)
        slots: FloatArray = held[:, len(self._cpu_prices) :] / self._count
        np.minimum(slots, bounds, out=slots)
        return np.floor(slots, out=slots)


def _first_of(fit: BoolArray, first: IntArray) -> tuple[IntArray, IntArray]:
    """(row, column) of the first of each state of which a GPU fits."""
    row, column = np.nonzero(fit)
    ways = np.zeros(fit.shape, dtype=np.bool_)
    ways[row, first[row, column]] = True
    row, column = np.nonzero(ways)
    return row, column


def _first(preference: FloatArray, count: int) -> BoolArray:
    """[R, G] the `count` GPUs that will be taken: best first, ties to the lower column."""
    order = np.argsort(-preference, axis=1, kind="stable")[:, :count]
    taken = np.zeros(preference.shape, dtype=np.bool_)
    np.put_along_axis(taken, order, values=True, axis=1)
    return taken
