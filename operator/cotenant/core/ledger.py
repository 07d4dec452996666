"""Who holds how much of which GPU: integers, one row per node, never more handed out than there is.

The moving half of the books; `Inventory` is the fixed half. `take` and `give` are exact inverses, so a trial that is
rolled back leaves nothing behind. Every write is noted in `changes`, which lets scores be kept and only the rows that
changed be scored again. Used by placement, trials and `ClusterState`; it decides nothing.

Tenancy of a GPU is kept in sums, so that giving back needs no list of holders: with n holders of queues q1…qn,
`n · Σq² = (Σq)²` exactly when all q are equal (Cauchy–Schwarz), and then the tenant is `Σq / n`.
Example: holders of queues 2, 2 → n=2, Σ=4, Σ²=8, 16 = 16, tenant 2. Holders 1, 3 → 2·10 ≠ 16: shared by queues.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cotenant.core.inventory import BoolArray, IntArray, Inventory
from cotenant.core.model import Node, Sharing


@dataclass(frozen=True, slots=True)
class Take:
    """What one job holds on one node, in the ledger's coordinates. The same GPU may appear more than once."""

    row: int
    columns: tuple[int, ...]
    memory: tuple[int, ...]
    """MiB, parallel to `columns`."""
    compute: tuple[int, ...]
    """Milli, parallel to `columns`."""
    cpu: int
    host: int
    tenant: int
    """Number of the queue: any integer, equal for equal queues."""
    sharing: Sharing = Sharing.QUEUE


class Ledger:
    """Free amounts per GPU and node. `free_*` may go below zero only where room is held for a job that waits for
    evictions; nothing fits there until they are done."""

    __slots__ = (
        "changes",
        "closed",
        "free_compute",
        "free_cpu",
        "free_host",
        "free_memory",
        "holders",
        "inventory",
        "reserved",
        "tenant_square",
        "tenant_sum",
    )

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.free_memory: IntArray = inventory.memory.copy()
        self.free_compute: IntArray = np.where(inventory.kind >= 0, 1000, 0).astype(np.int64)
        self.free_cpu: IntArray = inventory.cpu.copy()
        self.free_host: IntArray = inventory.host.copy()
        shape = inventory.kind.shape
        self.holders: IntArray = np.zeros(shape, dtype=np.int64)
        """[N, G] how many grants lie on each GPU."""
        self.tenant_sum: IntArray = np.zeros(shape, dtype=np.int64)
        self.tenant_square: IntArray = np.zeros(shape, dtype=np.int64)
        self.closed: IntArray = np.zeros(shape, dtype=np.int64)
        """[N, G] grants that share with nobody."""
        self.reserved: IntArray = np.zeros(shape, dtype=np.int64)
        """[N, G] grants that do not share with other queues."""
        self.changes: list[int] = []
        """Rows in the order in which they were written; append-only while the ledger lives."""

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Ledger:
        return cls(Inventory.of(nodes))

    def copy(self) -> Ledger:
        twin = Ledger.__new__(Ledger)
        twin.inventory = self.inventory
        for name in _ARRAYS:
            setattr(twin, name, getattr(self, name).copy())
        twin.changes = []
        return twin

    def take(self, take: Take) -> None:
        self._move(take, 1)

    def give(self, take: Take) -> None:
        self._move(take, -1)

    def _move(self, take: Take, sign: int) -> None:
        row, tenant = take.row, take.tenant
        for column, memory, compute in zip(take.columns, take.memory, take.compute, strict=True):
            at = (row, column)
            self.free_memory[at] -= sign * memory
            self.free_compute[at] -= sign * compute
            self.holders[at] += sign
            self.tenant_sum[at] += sign * tenant
            self.tenant_square[at] += sign * tenant * tenant
            if take.sharing is not Sharing.ANY:
                self.reserved[at] += sign
                if take.sharing is Sharing.NEVER:
                    self.closed[at] += sign
        self.free_cpu[row] -= sign * take.cpu
        self.free_host[row] -= sign * take.host
        self.changes.append(row)

    def empty(self, rows: IntArray) -> BoolArray:
        """[len(rows), G] nobody holds anything of the GPU."""
        unheld: BoolArray = self.holders[rows] == 0
        return unheld

    def same(self, other: Ledger) -> bool:
        """Equal amounts everywhere, whatever the way there."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS)

    def sound(self) -> bool:
        """Nothing handed out twice: no free amount below zero."""
        return bool(
            (self.free_memory >= 0).all()
            and (self.free_compute >= 0).all()
            and (self.free_cpu >= 0).all()
            and (self.free_host >= 0).all()
        )


_ARRAYS = (
    "free_memory",
    "free_compute",
    "free_cpu",
    "free_host",
    "holders",
    "tenant_sum",
    "tenant_square",
    "closed",
    "reserved",
)
