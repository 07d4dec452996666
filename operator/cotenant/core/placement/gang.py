"""Choosing nodes and GPUs for a whole gang, or nothing: one node before several, then as few as possible.

All workers of a gang ask for the same and nodes do not influence each other, so `Σ capacity(node) ≥ workers` decides
exactly whether the gang fits; there is no search. If some node takes all workers, the one with the best score is
chosen. Else nodes are filled in order of capacity, then score, and the last node is the one with the smallest capacity
that suffices. Example: capacities 8 8 5 3, 18 workers → 8 + 8, and the last two on the node of 3, not of 5. If GPUs are
linked by NVLink, linked GPUs count before the score (`nvlink`). A gang that asks to be spread is placed as evenly as
there is room instead (`spreading`). Rank 0 may ask for more CPU and memory than the others (`chief`). Suspect GPUs (a
job found them slow) are tried last: a gang goes at the pace of its slowest GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cotenant.core.gpus.inventory import IntArray, Rows
from cotenant.core.model.objects import TopologyMode
from cotenant.core.placement.chief import chief_first, chief_row, gangs_with_chief
from cotenant.core.placement.fit_cache import FitCache, ShapeFit
from cotenant.core.placement.gang_request import (
    NodeAssignment,
    PlacementRequest,
    cap_by_zone,
    capacity_per_node,
    domains_of,
    fit_of,
)
from cotenant.core.placement.node_gpus import assign
from cotenant.core.placement.nvlink import ALL_LINKED, link_levels
from cotenant.core.placement.scoring import LOWEST
from cotenant.core.placement.spreading import crowding, even_spread, regions, spread_capacity


def max_workers(fit_cache: FitCache, request: PlacementRequest) -> int:
    """The largest gang that fits, exactly. A required topology means one domain, and a domain lies in one zone."""
    if request.spread_yields:
        request = replace(request, spread=None)
    limits = request.excluded or request.zone_workers or request.topology or request.spread or request.chief
    if not limits:
        return int(fit_of(fit_cache, request).capacity[request.rows].sum())
    domain, capacity = _domain_of(fit_cache, request), capacity_per_node(fit_cache, request)
    if request.chief is not None and request.spread is None and not request.zone_workers:
        preferred = request.topology is None or request.topology.mode is TopologyMode.PREFERRED
        inside = np.zeros_like(capacity) if domain is None or preferred else domain
        return int(gangs_with_chief(inside, capacity, request.with_chief(fit_cache.ledger, capacity)).max(initial=0))
    capacity = spread_capacity(fit_cache.ledger.inventory, request, capacity)
    if domain is None or request.topology is None or request.topology.mode is TopologyMode.PREFERRED:
        return int(cap_by_zone(fit_cache, request, capacity).sum())
    totals = np.bincount(domain, weights=capacity).astype(np.int64)
    inventory = fit_cache.ledger.inventory
    for number, zone in enumerate(inventory.zones):
        if zone in request.zone_workers:
            inside = np.unique(domain[inventory.zone == number])
            totals[inside] = np.minimum(totals[inside], request.zone_workers[zone])
    return int(totals.max(initial=0))


def place_gang(fit_cache: FitCache, request: PlacementRequest, workers: int) -> tuple[NodeAssignment, ...] | None:
    """Nodes and GPUs for all workers in the order of their ranks, or None. Rank 0 lies on the node with most workers,
    or on that with room for a chief.

    Suspect GPUs are avoided if the gang is placed as well without them: on as few nodes and in as few domains of its
    topology, or spread as far. They never cost a gang its place.
    """
    if workers == 1 and request.chief is not None:
        request = replace(request, shape=request.chief, chief=None)
    suspects, spared = fit_cache.ledger.inventory.suspects, None
    if suspects and request.shape.count:
        spared = _place_on_any(fit_cache, replace(request, excluded=request.excluded | suspects), workers)
    if spared is not None and len(spared) == 1 and request.spread is None:
        return spared
    found = _place_on_any(fit_cache, request, workers)
    if spared is not None and found is not None:
        found = min(spared, found, key=lambda ways: _reach(fit_cache, request, ways))
    return found if found is None or len(found) == 1 else _by_rank(fit_cache, request, found)


def _by_rank(
    fit_cache: FitCache, request: PlacementRequest, assignments: Sequence[NodeAssignment]
) -> tuple[NodeAssignment, ...]:
    """The node of rank 0 first, then those with most workers. `assignments`: not held yet."""
    capacity = np.zeros(len(fit_cache.ledger.free_cpu), dtype=np.int64)
    capacity[[row for row, _ in assignments]] = [len(workers) for _, workers in assignments]
    spread = [(row, len(workers)) for row, workers in assignments]
    first = chief_row(request.with_chief(fit_cache.ledger, capacity), spread)
    return tuple(sorted(assignments, key=lambda part: (part[0] != first, -len(part[1]), part[0])))


def _reach(fit_cache: FitCache, request: PlacementRequest, assignments: Sequence[NodeAssignment]) -> tuple[int, ...]:
    """(how close workers lie that are to be spread, nodes, domains of the topology); smaller is better."""
    domain = _domain_of(fit_cache, request)
    domains = 0 if domain is None else len({int(domain[row]) for row, _ in assignments})
    return *crowding(fit_cache.ledger.inventory, request, assignments), len(assignments), domains


def _place_on_any(fit_cache: FitCache, request: PlacementRequest, workers: int) -> tuple[NodeAssignment, ...] | None:
    """Nodes and GPUs for all workers, suspect GPUs not treated differently."""
    if request.spread is not None and (workers > 1 or request.domain_workers):
        apart = _place_apart(fit_cache, request, workers)
        if apart is not None or not request.spread_yields:
            return apart
        request = replace(request, spread=None)
    if workers == 1 and not request.zone_workers and not request.excluded:
        row = _best_row(fit_cache, request, request.rows, 1)
        return None if row is None else assign(fit_cache, request, [(row, 1)])
    capacity = capacity_per_node(fit_cache, request)
    if request.zone_workers:
        if workers == 1:
            capacity = cap_by_zone(fit_cache, request, capacity)
        else:
            return _place_by_zone(fit_cache, request, capacity, workers)
    return _place_on(fit_cache, request, capacity, workers)


def _place_apart(fit_cache: FitCache, request: PlacementRequest, workers: int) -> tuple[NodeAssignment, ...] | None:
    """Spread as evenly as there is room; inside each domain on as few nodes as possible."""
    inventory, capacity = fit_cache.ledger.inventory, capacity_per_node(fit_cache, request)
    scores = fit_of(fit_cache, request).node_scores
    for inside in regions(inventory, request, capacity, workers):
        found = even_spread(inventory, request, inside, np.where(inside > 0, scores, LOWEST), workers)
        if found is not None:
            break
    else:
        return None
    if request.spread is None or request.spread.level == "node":
        return assign(fit_cache, request, found)
    domain, together = domains_of(inventory, request.spread.level), replace(request, spread=None, topology=None)
    parts = [_place_on(fit_cache, together, np.where(domain == one, inside, 0), number) for one, number in found]
    return tuple(assignment for part in parts if part is not None for assignment in part)


def _place_on(
    fit_cache: FitCache, request: PlacementRequest, capacity: IntArray, workers: int
) -> tuple[NodeAssignment, ...] | None:
    with_chief = request.with_chief(fit_cache.ledger, capacity)
    alone = np.flatnonzero(with_chief >= workers)
    if (row := _best_row(fit_cache, request, alone, workers) if len(alone) else None) is not None:
        return assign(fit_cache, request, [(row, workers)])
    if request.topology is not None and workers > 1:
        inside = _tightest_domain(fit_cache, request, (capacity, with_chief), workers)
        if inside is not None:
            capacity = inside
            with_chief = np.minimum(with_chief, inside)
        elif request.topology.mode is TopologyMode.REQUIRED:
            return None
    if int(capacity.sum()) < workers:
        return None
    chosen = _over_several(fit_of(fit_cache, request), capacity, workers)
    if chief_row(with_chief, chosen) is None:
        row = chief_first(capacity, with_chief, workers)
        if not (there := int(with_chief[row])):
            return None
        rest = np.where(np.arange(len(capacity)) == row, 0, capacity)
        if int(rest.sum()) + there < workers:
            return None
        chosen = [(row, there), *_over_several(fit_of(fit_cache, request), rest, workers - there)]
    return assign(fit_cache, request, chosen)


def _best_row(fit_cache: FitCache, request: PlacementRequest, rows: Rows, workers: int) -> int | None:
    """The row of these with the best score for all workers at once; None if none of them takes all.

    Rows on which the workers' GPUs are linked best go before the score. If all GPUs are linked on the row with the best
    score, no other row is looked at.
    """
    fit, inventory = fit_of(fit_cache, request, workers), fit_cache.ledger.inventory
    row = fit.best_row(rows)
    if row is None or not inventory.linked or _levels(fit_cache, request, np.array([row]), workers)[0] == ALL_LINKED:
        return row
    taking = np.arange(len(inventory.nodes))[rows]
    taking = taking[fit.capacity.take(taking) > 0]
    levels = _levels(fit_cache, request, taking, workers)
    return fit.best_row(taking[levels == levels.max()])


def _levels(fit_cache: FitCache, request: PlacementRequest, rows: IntArray, workers: int) -> IntArray:
    """[R] how well the GPUs of so many workers would be linked on each row."""
    inventory, shape = fit_cache.ledger.inventory, request.shape
    side_by_side = workers if request.distinct or shape.whole else 1
    if side_by_side * shape.count < 2:
        return np.full(len(rows), ALL_LINKED, dtype=np.int64)
    fits = fit_of(fit_cache, request).all_fits()[rows]
    for row, column in request.excluded:
        fits[rows == row, column] = False
    return link_levels(inventory, rows, fits, side_by_side, shape.count)


def _over_several(fit: ShapeFit, capacity: IntArray, workers: int) -> list[tuple[int, int]]:
    rows = np.flatnonzero(capacity)
    order = rows[np.lexsort((rows, -fit.node_scores[rows], -capacity[rows]))]
    fit_cache = capacity[order]
    before = np.concatenate(([0], np.cumsum(fit_cache)[:-1]))
    last = int(np.argmax(before + fit_cache >= workers))
    rest = workers - int(before[last])
    enough = last + np.flatnonzero(fit_cache[last:] >= rest)
    tightest = enough[np.lexsort((order[enough], -fit.node_scores[order[enough]], fit_cache[enough]))[0]]
    chosen = [(int(order[index]), int(fit_cache[index])) for index in range(last)]
    return [*chosen, (int(order[tightest]), rest)]


def _place_by_zone(
    fit_cache: FitCache, request: PlacementRequest, capacity: IntArray, workers: int
) -> tuple[NodeAssignment, ...] | None:
    """Place under quotas that name zones: inside one zone if one takes all (the tightest first), else over several."""
    inventory = fit_cache.ledger.inventory
    enough: list[tuple[int, int]] = []
    for number, zone in enumerate(inventory.zones):
        held = int(capacity[inventory.zone == number].sum())
        if min(held, request.zone_workers.get(zone, held)) >= workers:
            enough.append((held, number))
    for _, number in sorted(enough):
        inside = _place_on(fit_cache, request, np.where(inventory.zone == number, capacity, 0), workers)
        if inside is not None:
            return inside
    return _place_on(fit_cache, request, cap_by_zone(fit_cache, request, capacity), workers)


def _domain_of(fit_cache: FitCache, request: PlacementRequest) -> IntArray | None:
    return None if request.topology is None else domains_of(fit_cache.ledger.inventory, request.topology.level)


def _tightest_domain(
    fit_cache: FitCache, request: PlacementRequest, room: tuple[IntArray, IntArray], workers: int
) -> IntArray | None:
    """`room`: [N] workers that each row takes, without the chief and with it."""
    (capacity, with_chief), domain = room, _domain_of(fit_cache, request)
    if domain is None or not len(domain):
        return capacity
    totals = gangs_with_chief(domain, capacity, with_chief)
    enough = np.flatnonzero(totals >= workers)
    if not len(enough):
        return None
    chosen = int(enough[np.argmin(totals[enough])])
    return np.where(domain == chosen, capacity, 0)
