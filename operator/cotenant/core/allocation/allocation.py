"""Allocations: what placements hold, in the ledger's coordinates. One at a time, or thousands at once as a batch."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, replace

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray, Inventory
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import WHOLE, Job, Placement, Sharing
from cotenant.core.quota.tree import Bucket, QueueTree
from cotenant.core.quota.usage import Charge

_NO_QUEUE = -1
_FEW = 64
_COLUMNS = 1 + len(Amounts._fields)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Holdings of one placement: GPUs, CPU, memory and scratch space per node, and what quotas are charged for them."""

    nodes: tuple[NodeAllocation, ...]
    charge: Charge
    missing: str = ""
    """The first node or GPU of the placement that no longer exists, in words; it is not counted."""

    def without_pods(self, rows: Container[int | None]) -> Allocation:
        """The same without the pod on these nodes, because another part of the job counts it."""
        return replace(self, nodes=tuple(replace(one, pods=0) if one.row in rows else one for one in self.nodes))


def allocation_of(job: Job, placement: Placement, inventory: Inventory, tree: QueueTree) -> Allocation:
    """The allocation of a placement; GPUs that the inventory does not have are left out and named as `missing`."""
    nodes: list[NodeAllocation] = []
    amounts: dict[Bucket, Amounts] = {}
    missing = ""
    for part in placement.nodes:
        row = inventory.row_of.get(part.node)
        if row is None:
            missing = missing or f"node {part.node}"
            continue
        columns, memory, compute = [], [], []
        for rank in part.ranks:
            for grant in rank.gpus:
                slot = inventory.slot_of.get((part.node, grant.uuid))
                if slot is None:
                    missing = missing or f"GPU {grant.uuid} of node {part.node}"
                    continue
                columns.append(slot[1])
                memory.append(grant.memory_mib)
                compute.append(grant.compute_milli)
                kind = inventory.kinds[inventory.kind[slot]]
                bucket = (kind.gpu_class, inventory.nodes[row].zone)
                cost = Amounts.of_share(grant.memory_mib, grant.compute_milli, kind.memory_mib)
                amounts[bucket] = amounts[bucket].plus(cost) if bucket in amounts else cost
        cpu_milli, host_mib, scratch_mib = job.host_amounts(part.ranks)
        nodes.append(
            NodeAllocation(
                row=row,
                columns=tuple(columns),
                memory_mib=tuple(memory),
                compute_milli=tuple(compute),
                cpu_milli=cpu_milli,
                host_mib=host_mib,
                tenant=tenant_of(job.queue, tree),
                sharing=job.gpu.sharing,
                scratch_mib=scratch_mib,
            )
        )
    charge = Charge(tree.index.get(job.queue, _NO_QUEUE), job.user, tuple(sorted(amounts.items())))
    return Allocation(tuple(nodes), charge, missing)


def tenant_of(queue: str, tree: QueueTree) -> int:
    """A number for the queue, equal for equal queues. Deleted queues share one: they get no new jobs."""
    return tree.index.get(queue, len(tree.queues))


class AllocationBatch:
    """Many allocations in a row, so that any stretch of them is applied with a few array operations."""

    __slots__ = ("_amount_ends", "_amounts", "_buckets", "_grant_ends", "_grants", "_node_ends", "_nodes")

    def __init__(self, allocations: Iterable[Allocation] = ()) -> None:
        self._grant_ends: IntArray = np.zeros(1, dtype=np.int64)
        """Number of rows of `_grants` after each allocation, a 0 first. Likewise `_node_ends` and `_amount_ends`."""
        self._node_ends, self._amount_ends = self._grant_ends, self._grant_ends
        self._grants: IntArray = np.zeros((0, 9), dtype=np.int64)
        self._nodes: IntArray = np.zeros((0, 5), dtype=np.int64)
        self._amounts: IntArray = np.zeros((0, _COLUMNS), dtype=np.int64)
        """Index of the bucket in `_buckets`, then `Amounts`."""
        self._buckets: dict[tuple[int, str, Bucket], int] = {}
        """(queue, user, bucket) → its index in `_amounts`."""
        self.extend(allocations)

    def extend(self, allocations: Iterable[Allocation]) -> None:
        """Add allocations at the end; stretches that were applied before stay what they are."""
        grants: list[tuple[int, ...]] = []
        nodes: list[tuple[int, int, int, int, int]] = []
        amounts: list[tuple[int, ...]] = []
        buckets = self._buckets
        ends: list[tuple[int, int, int]] = []
        for allocation in allocations:
            for node in allocation.nodes:
                nodes.append((node.row, node.cpu_milli, node.host_mib, node.pods, node.scratch_mib))
                grants += _grants(node)
            charge = allocation.charge
            for bucket, held in charge.amounts:
                index = buckets.setdefault((charge.queue, charge.user, bucket), len(buckets))
                amounts.append((index, *held))
            ends.append((len(grants), len(nodes), len(amounts)))
        grant_ends, node_ends, amount_ends = np.array(ends, dtype=np.int64).reshape(len(ends), 3).T
        self._grant_ends = np.concatenate([self._grant_ends, self._grant_ends[-1] + grant_ends])
        self._node_ends = np.concatenate([self._node_ends, self._node_ends[-1] + node_ends])
        self._amount_ends = np.concatenate([self._amount_ends, self._amount_ends[-1] + amount_ends])
        self._grants = np.concatenate([self._grants, np.array(grants, dtype=np.int64).reshape(len(grants), 9)])
        self._nodes = np.concatenate([self._nodes, np.array(nodes, dtype=np.int64).reshape(len(nodes), 5)])
        self._amounts = np.concatenate([self._amounts, np.array(amounts, dtype=np.int64).reshape(-1, _COLUMNS)])

    def __len__(self) -> int:
        return len(self._grant_ends) - 1

    @property
    def is_wide(self) -> bool:
        """True if it knows far more (queue, user, bucket) than it has allocations, so that it is better made again."""
        return len(self._buckets) > 2 * len(self) + _FEW

    def take(self, order: IntArray) -> AllocationBatch:
        """The batch of the allocations at these places, in this order."""
        twin = AllocationBatch.__new__(AllocationBatch)
        twin._buckets = self._buckets.copy()
        twin._grant_ends, rows = _stretches(self._grant_ends, order)
        twin._grants = self._grants[rows]
        twin._node_ends, rows = _stretches(self._node_ends, order)
        twin._nodes = self._nodes[rows]
        twin._amount_ends, rows = _stretches(self._amount_ends, order)
        twin._amounts = self._amounts[rows]
        return twin

    def on_rows(self, rows: Collection[int]) -> list[int]:
        """Places of allocations that hold something on any of these nodes."""
        on = np.flatnonzero(np.isin(self._nodes[:, 0], list(rows)))
        found: list[int] = np.unique(np.searchsorted(self._node_ends, on, side="right") - 1).tolist()
        return found

    def apply(self, ledger: Ledger, start: int, stop: int, sign: int) -> None:
        """Allocate (`sign` 1) or release (-1) the stretch [start, stop)."""
        grants = self._grants[self._grant_ends[start] : self._grant_ends[stop]]
        nodes = self._nodes[self._node_ends[start] : self._node_ends[stop]]
        at = (grants[:, 0], grants[:, 1])
        np.add.at(ledger.free_memory, at, -sign * grants[:, 2])
        np.add.at(ledger.free_compute, at, -sign * grants[:, 3])
        counted = (ledger.holders, ledger.tenant_sum, ledger.tenant_square, ledger.exclusive, ledger.queue_only)
        for place, array in enumerate(counted):
            np.add.at(array, at, sign * grants[:, 4 + place])
        np.add.at(ledger.free_cpu, nodes[:, 0], -sign * nodes[:, 1])
        np.add.at(ledger.free_host, nodes[:, 0], -sign * nodes[:, 2])
        np.add.at(ledger.free_pods, nodes[:, 0], -sign * nodes[:, 3])
        np.add.at(ledger.free_scratch, nodes[:, 0], -sign * nodes[:, 4])
        ledger.changed_rows.extend(sorted(set(nodes[:, 0].tolist())))
        if sign < 0:
            ledger.check_released(*at)

    def blocked(self, ledger: Ledger) -> BoolArray:
        """[len] True if some GPU of the allocation lacks memory or compute for it."""
        row, column, memory, compute = self._grants[:, :4].T
        lacks = (ledger.free_memory[row, column] < memory) | (ledger.free_compute[row, column] < compute)
        owner = np.repeat(np.arange(len(self)), np.diff(self._grant_ends))
        blocked: BoolArray = np.bincount(owner[lacks], minlength=len(self)) > 0
        return blocked

    def charges(self, start: int, stop: int) -> list[Charge]:
        """Charges of the stretch [start, stop), added up per queue, user and bucket."""
        amounts = self._amounts[self._amount_ends[start] : self._amount_ends[stop]]
        sums = np.zeros((len(self._buckets), _COLUMNS - 1), dtype=np.int64)
        np.add.at(sums, amounts[:, 0], amounts[:, 1:])
        places, charged = np.flatnonzero(sums.any(axis=1)), list(self._buckets)
        return [
            Charge(queue, user, ((bucket, Amounts(*held)),))
            for (queue, user, bucket), held in zip(map(charged.__getitem__, places), sums[places].tolist(), strict=True)
        ]


def _stretches(ends: IntArray, order: IntArray) -> tuple[IntArray, IntArray]:
    """(ends of the stretches in this order, places of all that lies in them). `ends`: of stretches one after the other,
    a 0 before them."""
    lengths = ends[order + 1] - ends[order]
    new = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    return new, np.arange(int(new[-1])) + np.repeat(ends[order] - new[:-1], lengths)


def _grants(node: NodeAllocation) -> list[tuple[int, ...]]:
    """One row per GPU: place, amounts, one holder, and its tenancy where it can be shared."""
    row, tenant = node.row, node.tenant
    exclusive, queue_only = int(node.sharing is Sharing.NEVER), int(node.sharing is not Sharing.ANY)
    return [
        (row, column, memory, compute, 1, tenant, tenant * tenant, exclusive, queue_only)
        if compute < WHOLE
        else (row, column, memory, compute, 1, 0, 0, 0, 0)
        for column, memory, compute in zip(node.columns, node.memory_mib, node.compute_milli, strict=True)
    ]
