"""Free memory and compute of every GPU: integers, one row per node, never more allocated than there is.

`Inventory` holds what is fixed, the ledger what moves. `allocate` and `release` are exact inverses, so a trial that is
rolled back leaves no trace. Every write is noted in `changed_rows`, so that only rows that changed are scored again.
Decides nothing.

The holders of a GPU are kept as sums, not as a list. For n holders of queues q1…qn, `n · Σq² = (Σq)²` holds exactly if
all q are equal (Cauchy–Schwarz), and then the tenant is `Σq / n`.
Example: holders of queues 2, 2 → n=2, Σ=4, Σ²=8, 16 = 16, tenant 2. Holders 1, 3 → 2·10 ≠ 16: shared by queues.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.core.gpus.inventory import BoolArray, IntArray, Inventory
from cotenant.core.model.objects import WHOLE, Node, Sharing


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """Holdings of one job on one node, in the ledger's coordinates. The same GPU may appear more than once."""

    row: int
    columns: tuple[int, ...]
    memory_mib: tuple[int, ...]
    """MiB, parallel to `columns`."""
    compute_milli: tuple[int, ...]
    """Milli, parallel to `columns`."""
    cpu_milli: int
    host_mib: int
    tenant: int
    """Index of the queue: any integer, equal for equal queues."""
    sharing: Sharing = Sharing.QUEUE
    scratch_mib: int = 0
    pods: int = 1
    """0 if a part of the job that is counted apart has the pod on this node."""


_OF_NODE, _OF_GPU = 5, 7
"""Numbers of each node: its `equivalence`, free CPU, memory, pods, scratch space. Numbers of each GPU: see `Ledger`."""


class Ledger:
    """Free amounts per GPU and node. `free_*` may go below zero only if a place is nominated that evictions are still
    making free; nothing fits there until they are done.

    All moving numbers lie in `packed`, one array after the other, and the named arrays are windows into it. So a copy
    is one copy, and an operation on all GPUs is one pass over memory.
    """

    __slots__ = (
        "_cells",
        "_of_gpu",
        "_of_node",
        "_places",
        "_sizes",
        "changed_rows",
        "exclusive",
        "free_compute",
        "free_cpu",
        "free_host",
        "free_memory",
        "free_pods",
        "free_scratch",
        "holders",
        "inventory",
        "packed",
        "queue_only",
        "tenant_square",
        "tenant_sum",
    )

    def __init__(self, inventory: Inventory, packed: IntArray | None = None) -> None:
        height, width = inventory.kind.shape
        self.inventory = inventory
        self.changed_rows: array[int] = array("q")
        """Rows in the order in which they were written; append-only while the ledger lives."""
        size = height * (_OF_NODE + _OF_GPU * width)
        self.packed: IntArray = np.zeros(size, dtype=np.int64) if packed is None else packed
        self._cells = self.packed.data
        """The same memory: writing a single number here is far cheaper than in an array."""
        self._sizes = inventory.memory_mib.reshape(-1).data
        """MiB of each GPU, row after row."""
        self._places = inventory.pods.data
        """Pods that each node takes."""
        self._of_node: IntArray = self.packed[: height * _OF_NODE].reshape(_OF_NODE, height)
        self._of_gpu: IntArray = self.packed[height * _OF_NODE :].reshape(_OF_GPU, height, width)
        self.free_cpu: IntArray = self._of_node[1]
        self.free_host: IntArray = self._of_node[2]
        self.free_pods: IntArray = self._of_node[3]
        self.free_scratch: IntArray = self._of_node[4]
        self.free_memory: IntArray = self._of_gpu[0]
        self.free_compute: IntArray = self._of_gpu[1]
        self.holders: IntArray = self._of_gpu[2]
        """[N, G] grants on each GPU."""
        self.tenant_sum: IntArray = self._of_gpu[3]
        self.tenant_square: IntArray = self._of_gpu[4]
        self.exclusive: IntArray = self._of_gpu[5]
        """[N, G] grants that share with no other job."""
        self.queue_only: IntArray = self._of_gpu[6]
        """[N, G] grants that do not share with other queues."""
        if packed is None:
            self._of_node[0] = inventory.equivalence
            self.free_cpu[:] = inventory.cpu_milli
            self.free_host[:] = inventory.host_mib
            self.free_pods[:] = inventory.pods
            self.free_scratch[:] = inventory.scratch_mib
            self.free_memory[:] = inventory.memory_mib
            self.free_compute[:] = np.where(inventory.kind >= 0, WHOLE, 0)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Ledger:
        return cls(Inventory.of(nodes))

    def copy(self) -> Ledger:
        return Ledger(self.inventory, self.packed.copy())

    def with_inventory(self, inventory: Inventory) -> Ledger:
        """The same holders on nodes whose amounts have changed (`Inventory.patched`)."""
        twin = Ledger(inventory, self.packed.copy())
        twin._of_node[0] = inventory.equivalence
        twin.free_cpu += inventory.cpu_milli - self.inventory.cpu_milli
        twin.free_host += inventory.host_mib - self.inventory.host_mib
        twin.free_pods += inventory.pods - self.inventory.pods
        twin.free_scratch += inventory.scratch_mib - self.inventory.scratch_mib
        return twin

    def allocate(self, allocation: NodeAllocation, sign: int = 1) -> None:
        """`sign`: -1 releases it. Raises `ValueError` if a GPU or the node would then have more free than it has."""
        (height, width), row, cells = self.inventory.kind.shape, allocation.row, self._cells
        tenant, size = allocation.tenant, height * width
        grants = zip(allocation.columns, allocation.memory_mib, allocation.compute_milli, strict=True)
        for column, memory, compute in grants:
            at = height * _OF_NODE + row * width + column  # in `free_memory`; the other arrays follow
            cells[at] -= sign * memory
            cells[at + size] -= sign * compute
            cells[at + 2 * size] += sign
            if compute >= WHOLE:
                continue  # nobody can share it, so the tenant is not noted, and equal nodes stay in equal states
            cells[at + 3 * size] += sign * tenant
            cells[at + 4 * size] += sign * tenant * tenant
            if allocation.sharing is not Sharing.ANY:
                cells[at + 6 * size] += sign
                if allocation.sharing is Sharing.NEVER:
                    cells[at + 5 * size] += sign
        cells[height + row] -= sign * allocation.cpu_milli
        cells[2 * height + row] -= sign * allocation.host_mib
        cells[3 * height + row] -= sign * allocation.pods
        cells[4 * height + row] -= sign * allocation.scratch_mib
        self.changed_rows.append(row)
        if sign < 0:
            self._check_released(allocation)

    def release(self, allocation: NodeAllocation) -> None:
        self.allocate(allocation, -1)

    def _check_released(self, allocation: NodeAllocation) -> None:
        (height, width), row, cells = self.inventory.kind.shape, allocation.row, self._cells
        size = height * width
        for column in allocation.columns:
            at = height * _OF_NODE + row * width + column
            free = cells[at], cells[at + size], cells[at + 2 * size]
            if free[2] < 0 or free[1] > WHOLE or free[0] > self._sizes[row * width + column]:
                raise self._over_release(row, column)
        if cells[3 * height + row] > self._places[row]:
            raise self._over_released_pods(row)

    def check_released(self, rows: IntArray, columns: IntArray) -> None:
        """Raise `ValueError` if one of these GPUs, after a release, has more free than it has."""
        over = (self.holders[rows, columns] < 0) | (self.free_compute[rows, columns] > WHOLE)
        over |= self.free_memory[rows, columns] > self.inventory.memory_mib[rows, columns]
        if over.any():
            first = int(np.argmax(over))
            raise self._over_release(int(rows[first]), int(columns[first]))
        over = self.free_pods[rows] > self.inventory.pods[rows]
        if over.any():
            raise self._over_released_pods(int(rows[np.argmax(over)]))

    def _over_released_pods(self, row: int) -> ValueError:
        return ValueError(f"node {self.inventory.nodes[row].name}: more pods are released than jobs hold")

    def _over_release(self, row: int, column: int) -> ValueError:
        inventory = self.inventory
        gpu = f"GPU {inventory.uuids[row][column]} of node {inventory.nodes[row].name}"
        return ValueError(f"{gpu}: more is released than jobs hold")

    def written_since(self, seen: int) -> IntArray:
        """Rows that were written after the first `seen` changes, each once, in ascending order."""
        changes = np.array(self.changed_rows[seen:], dtype=np.int64)
        if len(changes) == 1:
            return changes  # most often, and far cheaper
        written = np.zeros(len(self.inventory.nodes), dtype=np.bool_)
        written[changes] = True
        return written.nonzero()[0]

    def state(self, row: int) -> bytes:
        """Equal for nodes in equal states."""
        return self._of_node[:, row].tobytes() + self._of_gpu[:, row].tobytes()

    def states(self) -> npt.NDArray[np.void]:
        """[N] equal entries for nodes in equal states."""
        rows = np.ascontiguousarray(np.hstack([self._of_node.T, *self._of_gpu]))
        return rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()

    def differs(self, other: Ledger) -> BoolArray:
        """[N] rows of which some amount or holder is not the same in the other ledger of these nodes."""
        of_node = (self._of_node[1:] != other._of_node[1:]).any(axis=0)  # without the number of equivalent nodes
        differs: BoolArray = of_node | (self._of_gpu != other._of_gpu).any(axis=(0, 2))
        return differs

    def idle(self) -> dict[tuple[str, str], int]:
        """(class, zone) → milli-GPU that are free on GPUs that take work."""
        inventory = self.inventory
        found: dict[tuple[str, str], int] = {}
        for number, kind in enumerate(inventory.kinds):
            for place, zone in enumerate(inventory.zones):
                mask = inventory.usable & (inventory.kind == number) & (inventory.zone == place)[:, None]
                bucket = (kind.gpu_class, zone)
                found[bucket] = found.get(bucket, 0) + int(self.free_compute[mask].clip(min=0).sum())
        return found

    def sound(self) -> bool:
        """True if nothing is allocated twice: no free amount is below zero."""
        return bool(
            (self.free_memory >= 0).all()
            and (self.free_compute >= 0).all()
            and (self.free_cpu >= 0).all()
            and (self.free_host >= 0).all()
            and (self.free_scratch >= 0).all()
        )
