"""The filter: which GPUs may serve a shape for a tenant, and how many of the shape each node takes.

Exact integer rules, no preferences.
A GPU may serve a share if it has the memory and the compute, and if its holders and the newcomer may share it:
nobody holds it; or all holders and the newcomer are of one queue and none of them has `sharing: Never`; or the node is
shared by queues and all of them have `sharing: Any`. A whole GPU must be empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray, Rows
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.objects import WHOLE, Sharing
from cotenant.core.placement.shapes import Shape

_MANY = np.int64(1 << 40)


@dataclass(frozen=True, slots=True)
class Tenancy:
    """Queue and sharing mode of a newcomer."""

    tenant: int
    sharing: Sharing = Sharing.QUEUE


def room(ledger: Ledger, shape: Shape, rows: Rows) -> BoolArray:
    """[R, G] True if the GPU has room for one GPU of the shape, whoever holds the rest. A whole GPU must be empty."""
    inventory = ledger.inventory
    if not inventory.kinds:
        return np.zeros(ledger.holders[rows].shape, dtype=np.bool_)
    memory, compute, allowed = shape.per_kind(inventory)
    kind = inventory.kind[rows]
    if shape.whole:
        good = allowed.take(kind) & (ledger.holders[rows] == 0) & (ledger.free_compute[rows] >= WHOLE)
    else:
        least = np.where(allowed, memory, _MANY)
        good = (ledger.free_memory[rows] >= least.take(kind)) & (ledger.free_compute[rows] >= compute.take(kind))
    found: BoolArray = good & inventory.usable[rows]  # where there is no GPU, none is usable
    return found


def may_share(ledger: Ledger, rows: Rows, tenancy: Tenancy) -> BoolArray:
    """[R, G] True if the GPU's holders, if it has any, and the newcomer may share it."""
    holders = ledger.holders[rows]
    free: BoolArray = holders == 0
    if tenancy.sharing is Sharing.NEVER:
        return free
    sums = ledger.tenant_sum[rows]
    ours = (sums == holders * tenancy.tenant) & (ledger.tenant_square[rows] == sums * tenancy.tenant)
    if tenancy.sharing is Sharing.ANY:
        ours |= ledger.inventory.shared[rows][:, None] & (ledger.queue_only[rows] == 0)
    shareable: BoolArray = free | (ours & (ledger.exclusive[rows] == 0))
    return shareable


def capacity(ledger: Ledger, shape: Shape, rows: Rows, fits: BoolArray, *, distinct: bool = True) -> IntArray:
    """[R] workers of the shape that each row takes at once. `distinct`: never two on one GPU."""
    if shape.count == 0:
        workers = np.where(ledger.inventory.ready[rows], _MANY, 0)
    elif distinct or shape.whole:
        workers = np.ascontiguousarray(fits.T).sum(axis=0)
        if shape.count > 1:
            workers //= shape.count
    else:
        workers = stacked_workers(np.where(fits, shares_per_gpu(ledger, shape, rows), 0), shape.count)
    if shape.cpu_milli:
        workers = np.minimum(workers, ledger.free_cpu[rows] // shape.cpu_milli)
    if shape.host_mib:
        workers = np.minimum(workers, ledger.free_host[rows] // shape.host_mib)
    if shape.scratch_mib:
        workers = np.minimum(workers, ledger.free_scratch[rows] // shape.scratch_mib)
    found: IntArray = np.where(ledger.free_pods[rows] > 0, np.maximum(workers, 0), 0)
    return found


def fits_exactly(ledger: Ledger, allocation: NodeAllocation, *, whole: bool) -> bool:
    """Exactly these amounts are free on exactly these GPUs, and may be shared so. `whole`: the GPUs must be empty."""
    row, inventory = allocation.row, ledger.inventory
    if not inventory.ready[row]:
        return False
    if ledger.free_cpu[row] < allocation.cpu_milli or ledger.free_host[row] < allocation.host_mib:
        return False
    if ledger.free_pods[row] < allocation.pods or ledger.free_scratch[row] < allocation.scratch_mib:
        return False
    wanted: dict[int, tuple[int, int]] = {}
    for column, memory, compute in zip(
        allocation.columns, allocation.memory_mib, allocation.compute_milli, strict=True
    ):
        before = wanted.get(column, (0, 0))
        wanted[column] = before[0] + memory, before[1] + compute
    if whole:
        return all(inventory.usable[row, column] and not ledger.holders[row, column] for column in wanted)
    rows = np.array([row])
    shareable = may_share(ledger, rows, Tenancy(allocation.tenant, allocation.sharing))[0]
    for column, (memory, compute) in wanted.items():
        at = (row, column)
        if not inventory.usable[at] or not shareable[column]:
            return False
        if ledger.free_memory[at] < memory or ledger.free_compute[at] < compute:
            return False
    return True


def stacked_workers(shares: IntArray, count: int) -> IntArray:
    """[R] workers with a share of each of `count` different GPUs, where workers may lie on the same GPU. `shares`:
    [R, G] that each GPU takes.

    k workers have a place exactly if Σ min(shares, k) ≥ k · count, because none is twice on a GPU (as in McNaughton's
    rule for machines); the largest such k is reached from above. Example: GPUs that take 5, 1 and 1, count 2 → 2.
    """
    workers: IntArray = np.ascontiguousarray(shares.T).sum(axis=0)
    if count == 1:
        return workers
    workers //= count
    while True:
        fewer = np.minimum(shares, workers[:, None]).sum(axis=1) // count
        if np.array_equal(fewer, workers):
            return workers
        workers = fewer


def shares_per_gpu(ledger: Ledger, shape: Shape, rows: Rows) -> IntArray:
    """[R, G] shares of this size that each GPU still takes (sharing rules aside)."""
    memory, compute, _ = shape.per_kind(ledger.inventory)
    kind = ledger.inventory.kind[rows]
    workers: IntArray = np.minimum(
        ledger.free_memory[rows] // np.maximum(memory[kind], 1),
        ledger.free_compute[rows] // np.maximum(compute[kind], 1),
    )
    return workers
