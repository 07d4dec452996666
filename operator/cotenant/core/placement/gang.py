"""Choosing nodes and GPUs for a whole gang, or nothing: one node before several, then as few as possible.

All workers of a gang ask for the same and nodes do not influence each other, so `Σ capacity(node) ≥ workers` decides
exactly whether the gang fits; there is no search. Which nodes: one that takes all, by score; else the fullest takers in
order of (capacity, score) and a last node whose capacity is the smallest that suffices.
Example: capacities 8 8 5 3, 18 workers → 8 + 8 and the last two on the node of 3, not of 5.
Suspect GPUs (a job found them slow) are tried last: a gang goes at the pace of its slowest GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.model.objects import Topology, TopologyMode
from cotenant.core.placement.fit_cache import LOWEST, FitCache, ShapeFit
from cotenant.core.placement.fitting import Tenancy, shares_per_gpu
from cotenant.core.placement.shapes import Shape

NodeAssignment: TypeAlias = tuple[int, tuple[tuple[int, ...], ...]]
"""(row, columns of each worker on it)."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRequest:
    """One way to run a job: a shape on certain rows for a tenant."""

    shape: Shape
    tenancy: Tenancy
    allowed: BoolArray
    """[N] rows that the job accepts: zones, nodes that failed it."""
    distinct: bool = True
    topology: Topology | None = None
    zone_workers: dict[str, int] = field(default_factory=dict)
    """Zones in which quotas allow only so many workers."""
    excluded: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of GPUs that must not serve: the job's other ranks lie on them, or they are suspect."""
    unrestricted: bool = False
    """`allowed` is true for all rows."""


def capacity_per_node(room: FitCache, ask: PlacementRequest) -> IntArray:
    """[N] workers that each row takes, under everything but the queue's total."""
    view = room.shape_fit(ask.shape, ask.tenancy, distinct=ask.distinct)
    found: IntArray = view.capacity.copy() if ask.unrestricted else np.where(ask.allowed, view.capacity, 0)
    for row in {row for row, _ in ask.excluded}:
        left = [column for column in np.flatnonzero(view.fits(row)).tolist() if (row, column) not in ask.excluded]
        if ask.distinct or ask.shape.whole:
            most_there = len(left) // max(1, ask.shape.count)
        else:
            most_there = int(shares_per_gpu(room.ledger, ask.shape, np.array([row]))[0, left].sum())
        found[row] = min(int(found[row]), most_there)
    return found


def max_workers(room: FitCache, ask: PlacementRequest) -> int:
    """The largest gang that fits, exactly. A required topology means one domain, and a domain lies in one zone."""
    capacity = capacity_per_node(room, ask)
    domain = _domain_of(room, ask)
    if domain is None or ask.topology is None or ask.topology.mode is TopologyMode.PREFERRED:
        return int(cap_by_zone(room, ask, capacity).sum())
    totals = np.bincount(domain, weights=capacity).astype(np.int64)
    inventory = room.ledger.inventory
    for number, zone in enumerate(inventory.zones):
        if zone in ask.zone_workers:
            inside = np.unique(domain[inventory.zone == number])
            totals[inside] = np.minimum(totals[inside], ask.zone_workers[zone])
    return int(totals.max(initial=0))


def place_gang(room: FitCache, ask: PlacementRequest, workers: int) -> tuple[NodeAssignment, ...] | None:
    """Nodes and GPUs for all workers, or None. GPUs that are suspect come last: they are spared where the gang lies as
    close together without them, on as few nodes and in as few domains of its topology. They never cost it its place.
    """
    suspects = room.ledger.inventory.suspects
    if not suspects or not ask.shape.count:
        return _place_on_any(room, ask, workers)
    spared = _place_on_any(room, replace(ask, excluded=ask.excluded | suspects), workers)
    if spared is not None and len(spared) == 1:
        return spared
    anywhere = _place_on_any(room, ask, workers)
    if spared is None or anywhere is None:
        return anywhere
    return spared if _reach(room, ask, spared) <= _reach(room, ask, anywhere) else anywhere


def _reach(room: FitCache, ask: PlacementRequest, picks: Sequence[NodeAssignment]) -> tuple[int, int]:
    """(nodes, domains of the topology asked for)."""
    domain = _domain_of(room, ask)
    return len(picks), 0 if domain is None else len({int(domain[row]) for row, _ in picks})


def _place_on_any(room: FitCache, ask: PlacementRequest, workers: int) -> tuple[NodeAssignment, ...] | None:
    """All GPUs alike but those that `ask` avoids."""
    if workers == 1 and not ask.zone_workers and not ask.excluded:
        return _place_one(room, ask)
    capacity = capacity_per_node(room, ask)
    if ask.zone_workers:
        if workers == 1:
            capacity = cap_by_zone(room, ask, capacity)
        else:
            return _place_by_zone(room, ask, capacity, workers)
    return _place_on(room, ask, capacity, workers)


def _place_on(
    room: FitCache, ask: PlacementRequest, capacity: IntArray, workers: int
) -> tuple[NodeAssignment, ...] | None:
    whole = capacity >= workers
    if whole.any():
        row = _best_single(room, ask, whole, workers)
        return _assign(room, ask, [(row, workers)])
    if ask.topology is not None and workers > 1:
        inside = _tightest_domain(room, ask, capacity, workers)
        if inside is not None:
            capacity = inside
        elif ask.topology.mode is TopologyMode.REQUIRED:
            return None
    if int(capacity.sum()) < workers:
        return None
    view = room.shape_fit(ask.shape, ask.tenancy, distinct=ask.distinct)
    return _assign(room, ask, _spread(view, capacity, workers))


def _place_one(room: FitCache, ask: PlacementRequest) -> tuple[NodeAssignment, ...] | None:
    """One worker: the best row as the scores stand, no search."""
    view = room.shape_fit(ask.shape, ask.tenancy, distinct=ask.distinct)
    scores = view.node_scores if ask.unrestricted else np.where(ask.allowed, view.node_scores, LOWEST)
    row = int(scores.argmax()) if len(scores) else 0
    if not len(scores) or scores[row] == LOWEST:
        return None
    if ask.shape.count == 1:
        column = int(np.where(view.fits(row), view.gpu_scores(row), LOWEST).argmax())
        return ((row, ((column,),)),)
    return _assign(room, ask, [(row, 1)])


def _best_single(room: FitCache, ask: PlacementRequest, candidates: BoolArray, workers: int) -> int:
    """Best node for all workers at once: scored as one merged shape where they lie on GPUs of their own."""
    merged = workers > 1 and (ask.distinct or ask.shape.whole)
    view = room.shape_fit(ask.shape.times(workers) if merged else ask.shape, ask.tenancy, distinct=ask.distinct)
    return int(np.where(candidates, view.node_scores, LOWEST).argmax())


def _spread(view: ShapeFit, capacity: IntArray, workers: int) -> list[tuple[int, int]]:
    rows = np.flatnonzero(capacity)
    order = rows[np.lexsort((rows, -view.node_scores[rows], -capacity[rows]))]
    room = capacity[order]
    before = np.concatenate(([0], np.cumsum(room)[:-1]))
    last = int(np.argmax(before + room >= workers))
    rest = workers - int(before[last])
    enough = last + np.flatnonzero(room[last:] >= rest)
    tightest = enough[np.lexsort((order[enough], -view.node_scores[order[enough]], room[enough]))[0]]
    picked = [(int(order[index]), int(room[index])) for index in range(last)]
    return [*picked, (int(order[tightest]), rest)]


def _assign(room: FitCache, ask: PlacementRequest, spread: Sequence[tuple[int, int]]) -> tuple[NodeAssignment, ...]:
    """GPUs for (row, workers on it). Workers side by side are judged as one merged shape, once per number of them."""
    single = room.shape_fit(ask.shape, ask.tenancy, distinct=ask.distinct)
    views = {1: single}
    for workers in {workers for _, workers in spread} - {1}:
        merged = ask.distinct or ask.shape.whole
        views[workers] = (
            room.shape_fit(ask.shape.times(workers), ask.tenancy, distinct=ask.distinct) if merged else single
        )
    return tuple(_assign_node(room, ask, (single, views[workers]), row, workers) for row, workers in spread)


def _assign_node(
    room: FitCache, ask: PlacementRequest, views: tuple[ShapeFit, ShapeFit], row: int, workers: int
) -> NodeAssignment:
    """GPUs of one node for `workers` of the gang: NVLink peers together, then by the scorer's preference. `views`: of
    one worker, and of so many."""
    single, together = views
    wanted = together.gpu_scores(row).tolist()
    columns = [column for column in np.flatnonzero(single.fits(row)).tolist() if (row, column) not in ask.excluded]
    suspects = room.ledger.inventory.suspects
    columns.sort(key=lambda column: ((row, column) in suspects, -wanted[column], column))
    count = ask.shape.count
    if not ask.distinct and not ask.shape.whole:
        room_on = shares_per_gpu(room.ledger, ask.shape, np.array([row]))[0]
        columns = [column for column in columns for _ in range(int(room_on[column]))]
    elif workers * count > 1:
        columns = _peers_first(room.ledger.inventory.nvlink_group[row], columns, workers * count)
    return row, tuple(tuple(columns[worker * count : (worker + 1) * count]) for worker in range(workers))


def _peers_first(group_of: IntArray, columns: list[int], count: int) -> list[int]:
    """Columns reordered so that the first `count` lie in as few NVLink groups as possible, tightest group first."""
    groups: dict[int, list[int]] = {}
    for column in columns:
        groups.setdefault(int(group_of[column]), []).append(column)
    if len(groups) <= 1:
        return columns
    enough = [group for group in groups.values() if len(group) >= count]
    if enough:
        return min(enough, key=len)
    return [column for group in sorted(groups.values(), key=len, reverse=True) for column in group]


def cap_by_zone(room: FitCache, ask: PlacementRequest, capacity: IntArray) -> IntArray:
    """Capacity cut to what quotas leave in each zone, fullest rows first kept."""
    if not ask.zone_workers:
        return capacity
    inventory = room.ledger.inventory
    limited = capacity.copy()
    for number, zone in enumerate(inventory.zones):
        if zone in ask.zone_workers:
            rows = np.flatnonzero((inventory.zone == number) & (capacity > 0))
            rows = rows[np.lexsort((rows, -capacity[rows]))]
            before = np.cumsum(capacity[rows]) - capacity[rows]
            limited[rows] = np.clip(ask.zone_workers[zone] - before, 0, capacity[rows])
    return limited


def _place_by_zone(
    room: FitCache, ask: PlacementRequest, capacity: IntArray, workers: int
) -> tuple[NodeAssignment, ...] | None:
    """Where quotas name zones: inside one zone if one can take all (the tightest first), else over several."""
    inventory = room.ledger.inventory
    enough: list[tuple[int, int]] = []
    for number, zone in enumerate(inventory.zones):
        held = int(capacity[inventory.zone == number].sum())
        if min(held, ask.zone_workers.get(zone, held)) >= workers:
            enough.append((held, number))
    for _, number in sorted(enough):
        inside = _place_on(room, ask, np.where(inventory.zone == number, capacity, 0), workers)
        if inside is not None:
            return inside
    return _place_on(room, ask, cap_by_zone(room, ask, capacity), workers)


def _domain_of(room: FitCache, ask: PlacementRequest) -> IntArray | None:
    if ask.topology is None:
        return None
    inventory = room.ledger.inventory
    if ask.topology.level == "zone":
        return inventory.zone
    return inventory.rack if ask.topology.level == "rack" else np.arange(len(inventory.nodes), dtype=np.int64)


def _tightest_domain(room: FitCache, ask: PlacementRequest, capacity: IntArray, workers: int) -> IntArray | None:
    domain = _domain_of(room, ask)
    if domain is None or not len(domain):
        return capacity
    totals = np.bincount(domain, weights=capacity).astype(np.int64)
    enough = np.flatnonzero(totals >= workers)
    if not len(enough):
        return None
    chosen = int(enough[np.argmin(totals[enough])])
    return np.where(domain == chosen, capacity, 0)
