"""NVLink in the choice of nodes and GPUs: workers get GPUs that are linked with each other, if there are such.

How well the GPUs of a node are linked for so many workers of the same gang, side by side:
2: one NVLink group takes all of them; 1: each worker's own GPUs lie in one group; 0: not even that.
Example: groups of 3 and 2 free GPUs, 2 workers of 2 GPUs each → 1. A fresh node with a group of 4 → 2, and goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray, Inventory
from cotenant.core.placement.gang_request import NodeAssignment

ALL_LINKED: Final = 2
EACH_LINKED: Final = 1


def link_levels(inventory: Inventory, rows: IntArray, fits: BoolArray, workers: IntArray | int, count: int) -> IntArray:
    """[R] how well `workers` with `count` GPUs each would be linked there. `fits`: [R, G] GPUs that may serve."""
    groups = inventory.nvlink_group[rows]
    largest = np.zeros(len(rows), dtype=np.int64)
    inside = np.zeros(len(rows), dtype=np.int64)
    for number in range(groups.shape[1]):
        size = np.count_nonzero((groups == number) & fits, axis=1)
        np.maximum(largest, size, out=largest)
        inside += size // count
    each = np.where((inside >= workers) & (count > 1), EACH_LINKED, 0)
    return np.where(largest >= workers * count, ALL_LINKED, each)


def linkage(inventory: Inventory, assignments: Sequence[NodeAssignment]) -> int:
    """The level (as above) of GPUs that were chosen: of the node on which it is lowest. 0 if the cluster has no
    NVLink."""
    if not inventory.linked:
        return 0
    found = ALL_LINKED
    for row, workers in assignments:
        group_of = inventory.nvlink_group[row]
        of_workers = [{int(group_of[column]) for column in columns} for columns in workers]
        if len(set().union(*of_workers)) > 1:
            is_each = len(workers[0]) > 1 and all(len(groups) == 1 for groups in of_workers)
            found = min(found, EACH_LINKED if is_each else 0)
    return found


def peers_first(group_of: Sequence[int], columns: list[int], workers: int, count: int) -> list[int]:
    """Columns reordered so that the first `workers` times `count` lie in as few NVLink groups as possible, tightest
    group first. Each worker's GPUs lie in one group if a group has room for them.
    """
    groups: dict[int, list[int]] = {}
    for column in columns:
        groups.setdefault(group_of[column], []).append(column)
    if len(groups) <= 1:
        return columns
    enough = [group for group in groups.values() if len(group) >= workers * count]
    if enough:
        return min(enough, key=len)
    together, rest = [], []
    for group in sorted(groups.values(), key=len, reverse=True):
        even = len(group) // count * count
        together += group[:even]
        rest += group[even:]
    return together + rest
