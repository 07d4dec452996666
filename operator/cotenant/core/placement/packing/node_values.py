"""What each node of a ledger is worth before a placement: the same for every shape, so it is worked out once.

If a node was written since, it is worked out again when it is next asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, FloatArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import WHOLE
from cotenant.core.placement.packing.value_tables import LEVELS, ValueTables

CHUNK = 256
"""Rows that are worked out in one go: what they need stays in the processor's cache."""
_NO_MEMORY = np.int64(1) << 62
_CPU_BITS, _GPU_BITS = 10, 14
TIE_BITS = _CPU_BITS + _GPU_BITS
"""Low bits of a score: ties by what is left of the node."""

Worth: TypeAlias = Callable[[FloatArray, IntArray, IntArray], FloatArray]
"""([R, Q + M] sum of the features of each row's GPUs, [R] its free CPU, [R] its free host memory) → [R] its value."""


class NodeValues:
    """Arrays over all nodes of one ledger. A row is right once it was asked for with `refresh`."""

    __slots__ = (
        "_divisor", "_known", "_seen", "_tables", "_worth", "compute", "cpu", "first", "held", "host", "kind",
        "ledger", "little", "memory", "value",
    )  # fmt: skip

    def __init__(self, ledger: Ledger, mib: IntArray, tables: ValueTables, worth: Worth) -> None:
        """`mib`: of a GPU of each kind."""
        inventory = ledger.inventory
        height, width = inventory.kind.shape
        self.ledger, self._tables, self._worth = ledger, tables, worth
        self._divisor: IntArray = np.where(inventory.usable, mib[inventory.kind], _NO_MEMORY)
        """[N, G] MiB of each GPU; huge for one that takes no work, so that it has 0 milli of memory free."""
        self._known: BoolArray = np.zeros(height, dtype=np.bool_)
        self._seen = len(ledger.changed_rows)
        self.kind: IntArray = inventory.kind * LEVELS
        """[N, G] offset of the kind in the tables."""
        self.memory: IntArray = np.zeros((height, width), dtype=np.int64)
        """[N, G] free, in milli of the GPU's memory."""
        self.compute: IntArray = np.zeros((height, width), dtype=np.int64)
        """[N, G] free."""
        self.first: IntArray = np.zeros((height, width), dtype=np.int64)
        """[N, G] the first column of the row whose GPU is in the same state: equal GPUs share one score."""
        self.cpu: IntArray = np.zeros(height, dtype=np.int64)
        self.host: IntArray = np.zeros(height, dtype=np.int64)
        self.held: FloatArray = np.zeros((height, tables.features))
        """[N, Q + M]."""
        self.value: FloatArray = np.zeros(height)
        self.little: IntArray = np.zeros(height, dtype=np.int64)
        """[N] what ties are broken by: least compute free, then least CPU."""

    def refresh(self, rows: IntArray) -> None:
        """Bring these rows up to date."""
        changes = self.ledger.changed_rows
        if self._seen < len(changes):
            self._known[self.ledger.written_since(self._seen)] = False
            self._seen = len(changes)
        unknown = rows[~self._known.take(rows)]
        for start in range(0, len(unknown), CHUNK):
            self._work_out(unknown[start : start + CHUNK])
        if len(unknown):
            self._known[unknown] = True

    def _work_out(self, rows: IntArray) -> None:
        ledger = self.ledger
        cpu, host = ledger.free_cpu.take(rows), ledger.free_host.take(rows)
        memory = np.maximum(ledger.free_memory.take(rows, axis=0) * WHOLE // self._divisor.take(rows, axis=0), 0)
        usable = ledger.inventory.usable.take(rows, axis=0)
        compute = np.maximum(ledger.free_compute.take(rows, axis=0) * usable, 0)
        kind = self.kind.take(rows, axis=0)
        state = (kind + memory) * (WHOLE + 1) + compute
        self.cpu[rows], self.host[rows], self.memory[rows], self.compute[rows] = cpu, host, memory, compute
        self.first[rows] = (state[:, :, None] == state[:, None, :]).argmax(axis=2)
        self.little[rows] = (compute.sum(axis=1) << _CPU_BITS) + cpu // WHOLE
        held = self._tables.at(kind, memory, compute).sum(axis=1)
        self.held[rows], self.value[rows] = held, self._worth(held, cpu, host)
