"""Room for a chief: a rank 0 that asks for more CPU, host memory or scratch space than the other ranks of its gang.

One node of the gang takes rank 0, and must have room for the difference beside its workers. A node of capacity c that
takes l workers if rank 0 is among them loses c − l workers, so the largest gang with a chief is Σ c less the smallest
loss of a node with l > 0. Example: nodes that take 8 and 5 workers, or 6 and 5 with rank 0 among them → 13 workers, and
rank 0 on the second node. If quotas limit the gang in a zone, or it is spread, every node of it keeps the room instead.
A spread that is Preferred yields if there is not so much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.core.gpus.inventory import IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement.shapes import Shape


def chief_capacity(ledger: Ledger, chief: Shape, worker: Shape, capacity: IntArray) -> IntArray:
    """[N] workers that each row takes if rank 0 is one of them. `capacity`: if it is not."""
    found = capacity
    for free, each, whole in (
        (ledger.free_cpu, worker.cpu_milli, chief.cpu_milli),
        (ledger.free_host, worker.host_mib, chief.host_mib),
        (ledger.free_scratch, worker.scratch_mib, chief.scratch_mib),
    ):
        left = free - (whole - each)
        found = np.minimum(found, left // each if each else np.where(left >= 0, found, 0))
    positive: IntArray = np.maximum(found, 0)
    return positive


def gangs_with_chief(domain: IntArray, capacity: IntArray, with_chief: IntArray) -> IntArray:
    """[D] workers of the largest gang inside each domain that has the chief in it; 0 if none of its nodes takes it.
    Of a gang without a chief, both capacities are one array."""
    held: IntArray = np.bincount(domain, weights=capacity).astype(np.int64)
    if with_chief is capacity:
        return held
    able = np.flatnonzero(with_chief > 0)
    loss = held.copy()
    np.minimum.at(loss, domain[able], capacity[able] - with_chief[able])
    return held - loss


def chief_first(capacity: IntArray, with_chief: IntArray, workers: int) -> int:
    """The row that takes most workers with rank 0 among them, of those beside which all others find room."""
    enough = capacity.sum() - capacity + with_chief >= workers
    return int(np.where(enough, with_chief, 0).argmax())


def chief_row(with_chief: IntArray, spread: Sequence[tuple[int, int]]) -> int | None:
    """The row that takes rank 0, of (row, workers on it): of those with room, one with most workers. None: no row."""
    able = [(-workers, row) for row, workers in spread if with_chief[row] >= workers]
    return min(able)[1] if able else None
