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
from cotenant.core.placement.fit_cache import LOWEST, Room, View
from cotenant.core.placement.fitting import Tenancy, per_gpu
from cotenant.core.placement.shapes import Shape

Pick: TypeAlias = tuple[int, tuple[tuple[int, ...], ...]]
"""(row, columns of each worker on it)."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """One way to run a job: a shape on certain rows for a tenant."""

    shape: Shape
    tenancy: Tenancy
    allowed: BoolArray
    """[N] rows that the job accepts: zones, nodes that failed it."""
    distinct: bool = True
    topology: Topology | None = None
    zone_room: dict[str, int] = field(default_factory=dict)
    """Zones in which quotas allow only so many workers."""
    avoid: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of GPUs that must not serve: the job's other ranks lie on them, or they are suspect."""
    everywhere: bool = False
    """`allowed` is true for all rows."""


def room_for(room: Room, ask: Ask) -> IntArray:
    """[N] workers that each row takes, under everything but the queue's total."""
    view = room.view(ask.shape, ask.tenancy, distinct=ask.distinct)
    found: IntArray = view.capacity.copy() if ask.everywhere else np.where(ask.allowed, view.capacity, 0)
    for row in {row for row, _ in ask.avoid}:
        left = [column for column in np.flatnonzero(view.fits(row)).tolist() if (row, column) not in ask.avoid]
        if ask.distinct or ask.shape.whole:
            most_there = len(left) // max(1, ask.shape.count)
        else:
            most_there = int(per_gpu(room.ledger, ask.shape, np.array([row]))[0, left].sum())
        found[row] = min(int(found[row]), most_there)
    return found


def most(room: Room, ask: Ask) -> int:
    """The largest gang that fits, exactly. A required topology means one domain, and a domain lies in one zone."""
    capacity = room_for(room, ask)
    domain = _domain_of(room, ask)
    if domain is None or ask.topology is None or ask.topology.mode is TopologyMode.PREFERRED:
        return int(limit_zones(room, ask, capacity).sum())
    totals = np.bincount(domain, weights=capacity).astype(np.int64)
    inventory = room.ledger.inventory
    for number, zone in enumerate(inventory.zones):
        if zone in ask.zone_room:
            inside = np.unique(domain[inventory.zone == number])
            totals[inside] = np.minimum(totals[inside], ask.zone_room[zone])
    return int(totals.max(initial=0))


def place(room: Room, ask: Ask, workers: int) -> tuple[Pick, ...] | None:
    """Nodes and GPUs for all workers, or None. GPUs that are suspect come last: they are spared where the gang lies as
    close together without them, on as few nodes and in as few domains of its topology. They never cost it its place.
    """
    suspects = room.ledger.inventory.suspects
    if not suspects or not ask.shape.count:
        return _place_on_any(room, ask, workers)
    spared = _place_on_any(room, replace(ask, avoid=ask.avoid | suspects), workers)
    if spared is not None and len(spared) == 1:
        return spared
    anywhere = _place_on_any(room, ask, workers)
    if spared is None or anywhere is None:
        return anywhere
    return spared if _reach(room, ask, spared) <= _reach(room, ask, anywhere) else anywhere


def _reach(room: Room, ask: Ask, picks: Sequence[Pick]) -> tuple[int, int]:
    """(nodes, domains of the topology asked for)."""
    domain = _domain_of(room, ask)
    return len(picks), 0 if domain is None else len({int(domain[row]) for row, _ in picks})


def _place_on_any(room: Room, ask: Ask, workers: int) -> tuple[Pick, ...] | None:
    """All GPUs alike but those that `ask` avoids."""
    if workers == 1 and not ask.zone_room and not ask.avoid:
        return _place_one(room, ask)
    capacity = room_for(room, ask)
    if ask.zone_room:
        if workers == 1:
            capacity = limit_zones(room, ask, capacity)
        else:
            return _place_by_zone(room, ask, capacity, workers)
    return _place(room, ask, capacity, workers)


def _place(room: Room, ask: Ask, capacity: IntArray, workers: int) -> tuple[Pick, ...] | None:
    whole = capacity >= workers
    if whole.any():
        row = _best_single(room, ask, whole, workers)
        return _picks(room, ask, [(row, workers)])
    if ask.topology is not None and workers > 1:
        inside = _tightest_domain(room, ask, capacity, workers)
        if inside is not None:
            capacity = inside
        elif ask.topology.mode is TopologyMode.REQUIRED:
            return None
    if int(capacity.sum()) < workers:
        return None
    view = room.view(ask.shape, ask.tenancy, distinct=ask.distinct)
    return _picks(room, ask, _spread(view, capacity, workers))


def _place_one(room: Room, ask: Ask) -> tuple[Pick, ...] | None:
    """One worker: the best row as the scores stand, no search."""
    view = room.view(ask.shape, ask.tenancy, distinct=ask.distinct)
    scores = view.open if ask.everywhere else np.where(ask.allowed, view.open, LOWEST)
    row = int(scores.argmax()) if len(scores) else 0
    if not len(scores) or scores[row] == LOWEST:
        return None
    if ask.shape.count == 1:
        column = int(np.where(view.fits(row), view.gpu(row), LOWEST).argmax())
        return ((row, ((column,),)),)
    return _picks(room, ask, [(row, 1)])


def _best_single(room: Room, ask: Ask, candidates: BoolArray, workers: int) -> int:
    """Best node for all workers at once: scored as one merged shape where they lie on GPUs of their own."""
    merged = workers > 1 and (ask.distinct or ask.shape.whole)
    view = room.view(ask.shape.times(workers) if merged else ask.shape, ask.tenancy, distinct=ask.distinct)
    return int(np.where(candidates, view.open, LOWEST).argmax())


def _spread(view: View, capacity: IntArray, workers: int) -> list[tuple[int, int]]:
    rows = np.flatnonzero(capacity)
    order = rows[np.lexsort((rows, -view.open[rows], -capacity[rows]))]
    room = capacity[order]
    before = np.concatenate(([0], np.cumsum(room)[:-1]))
    last = int(np.argmax(before + room >= workers))
    rest = workers - int(before[last])
    enough = last + np.flatnonzero(room[last:] >= rest)
    tightest = enough[np.lexsort((order[enough], -view.open[order[enough]], room[enough]))[0]]
    picked = [(int(order[index]), int(room[index])) for index in range(last)]
    return [*picked, (int(order[tightest]), rest)]


def _picks(room: Room, ask: Ask, spread: Sequence[tuple[int, int]]) -> tuple[Pick, ...]:
    """GPUs for (row, workers on it). Workers side by side are judged as one merged shape, once per number of them."""
    single = room.view(ask.shape, ask.tenancy, distinct=ask.distinct)
    views = {1: single}
    for workers in {workers for _, workers in spread} - {1}:
        merged = ask.distinct or ask.shape.whole
        views[workers] = room.view(ask.shape.times(workers), ask.tenancy, distinct=ask.distinct) if merged else single
    return tuple(_pick(room, ask, (single, views[workers]), row, workers) for row, workers in spread)


def _pick(room: Room, ask: Ask, views: tuple[View, View], row: int, workers: int) -> Pick:
    """GPUs of one node for `workers` of the gang: NVLink peers together, then by the scorer's preference. `views`: of
    one worker, and of so many."""
    single, together = views
    wanted = together.gpu(row).tolist()
    columns = [column for column in np.flatnonzero(single.fits(row)).tolist() if (row, column) not in ask.avoid]
    suspects = room.ledger.inventory.suspects
    columns.sort(key=lambda column: ((row, column) in suspects, -wanted[column], column))
    count = ask.shape.count
    if not ask.distinct and not ask.shape.whole:
        room_on = per_gpu(room.ledger, ask.shape, np.array([row]))[0]
        columns = [column for column in columns for _ in range(int(room_on[column]))]
    elif workers * count > 1:
        columns = _peers_first(room.ledger.inventory.peers[row], columns, workers * count)
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


def limit_zones(room: Room, ask: Ask, capacity: IntArray) -> IntArray:
    """Capacity cut to what quotas leave in each zone, fullest rows first kept."""
    if not ask.zone_room:
        return capacity
    inventory = room.ledger.inventory
    limited = capacity.copy()
    for number, zone in enumerate(inventory.zones):
        if zone in ask.zone_room:
            rows = np.flatnonzero((inventory.zone == number) & (capacity > 0))
            rows = rows[np.lexsort((rows, -capacity[rows]))]
            before = np.cumsum(capacity[rows]) - capacity[rows]
            limited[rows] = np.clip(ask.zone_room[zone] - before, 0, capacity[rows])
    return limited


def _place_by_zone(room: Room, ask: Ask, capacity: IntArray, workers: int) -> tuple[Pick, ...] | None:
    """Where quotas name zones: inside one zone if one can take all (the tightest first), else over several."""
    inventory = room.ledger.inventory
    enough: list[tuple[int, int]] = []
    for number, zone in enumerate(inventory.zones):
        held = int(capacity[inventory.zone == number].sum())
        if min(held, ask.zone_room.get(zone, held)) >= workers:
            enough.append((held, number))
    for _, number in sorted(enough):
        inside = _place(room, ask, np.where(inventory.zone == number, capacity, 0), workers)
        if inside is not None:
            return inside
    return _place(room, ask, limit_zones(room, ask, capacity), workers)


def _domain_of(room: Room, ask: Ask) -> IntArray | None:
    if ask.topology is None:
        return None
    inventory = room.ledger.inventory
    if ask.topology.level == "zone":
        return inventory.zone
    return inventory.rack if ask.topology.level == "rack" else np.arange(len(inventory.nodes), dtype=np.int64)


def _tightest_domain(room: Room, ask: Ask, capacity: IntArray, workers: int) -> IntArray | None:
    domain = _domain_of(room, ask)
    if domain is None or not len(domain):
        return capacity
    totals = np.bincount(domain, weights=capacity).astype(np.int64)
    enough = np.flatnonzero(totals >= workers)
    if not len(enough):
        return None
    chosen = int(enough[np.argmin(totals[enough])])
    return np.where(domain == chosen, capacity, 0)
