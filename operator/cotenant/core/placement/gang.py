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
from cotenant.core.placement.fit_cache import LOWEST, AnyFit, FitCache
from cotenant.core.placement.fitting import Rows, Tenancy, shares_per_gpu
from cotenant.core.placement.shapes import Shape

NodeAssignment: TypeAlias = tuple[int, tuple[tuple[int, ...], ...]]
"""(row, columns of each worker on it)."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRequest:
    """One way to run a gang: a shape, a tenant, and the rows and GPUs that may serve."""

    shape: Shape
    tenancy: Tenancy
    allowed: BoolArray
    """[N] rows that may serve: the job's zones, without nodes that failed it."""
    distinct: bool = True
    topology: Topology | None = None
    zone_workers: dict[str, int] = field(default_factory=dict)
    """Zone → workers that quotas allow there; zones that are not named are not limited."""
    excluded: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of GPUs that must not serve: the job's other ranks lie on them, or they are suspect."""
    unrestricted: bool = False
    """`allowed` is true for all rows."""
    rows: Rows | None = None
    """Rows that are allowed and have GPUs of the shape's classes: all, or numbers that ascend; None: not known."""


def capacity_per_node(fit_cache: FitCache, request: PlacementRequest) -> IntArray:
    """[N] workers that each row takes; quotas of zones are not applied yet."""
    fit = fit_cache.shape_fit(request.shape, request.tenancy, distinct=request.distinct)
    found: IntArray = fit.capacity.copy() if request.unrestricted else np.where(request.allowed, fit.capacity, 0)
    for row in {row for row, _ in request.excluded}:
        left = [column for column in np.flatnonzero(fit.fits(row)).tolist() if (row, column) not in request.excluded]
        if request.distinct or request.shape.whole:
            workers = len(left) // max(1, request.shape.count)
        else:
            workers = int(shares_per_gpu(fit_cache.ledger, request.shape, np.array([row]))[0, left].sum())
        found[row] = min(int(found[row]), workers)
    return found


def max_workers(fit_cache: FitCache, request: PlacementRequest) -> int:
    """The largest gang that fits, exactly. A required topology means one domain, and a domain lies in one zone."""
    if request.rows is not None and not request.excluded and not request.zone_workers and request.topology is None:
        return int(fit_cache.any_class_fit(request).capacity[request.rows].sum())
    capacity = capacity_per_node(fit_cache, request)
    domain = _domain_of(fit_cache, request)
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
    """Nodes and GPUs for all workers, or None. GPUs that are suspect come last: they are spared where the gang lies as
    close together without them, on as few nodes and in as few domains of its topology. They never cost it its place.
    """
    suspects = fit_cache.ledger.inventory.suspects
    if not suspects or not request.shape.count:
        return _place_on_any(fit_cache, request, workers)
    spared = _place_on_any(fit_cache, replace(request, excluded=request.excluded | suspects), workers)
    if spared is not None and len(spared) == 1:
        return spared
    anywhere = _place_on_any(fit_cache, request, workers)
    if spared is None or anywhere is None:
        return anywhere
    return spared if _reach(fit_cache, request, spared) <= _reach(fit_cache, request, anywhere) else anywhere


def _reach(fit_cache: FitCache, request: PlacementRequest, assignments: Sequence[NodeAssignment]) -> tuple[int, int]:
    """(nodes, domains of the topology asked for)."""
    domain = _domain_of(fit_cache, request)
    return len(assignments), 0 if domain is None else len({int(domain[row]) for row, _ in assignments})


def _place_on_any(fit_cache: FitCache, request: PlacementRequest, workers: int) -> tuple[NodeAssignment, ...] | None:
    """Nodes and GPUs for all workers, suspect GPUs not treated differently."""
    if workers == 1 and not request.zone_workers and not request.excluded:
        return _place_one(fit_cache, request)
    capacity = capacity_per_node(fit_cache, request)
    if request.zone_workers:
        if workers == 1:
            capacity = cap_by_zone(fit_cache, request, capacity)
        else:
            return _place_by_zone(fit_cache, request, capacity, workers)
    return _place_on(fit_cache, request, capacity, workers)


def _place_on(
    fit_cache: FitCache, request: PlacementRequest, capacity: IntArray, workers: int
) -> tuple[NodeAssignment, ...] | None:
    whole = capacity >= workers
    if whole.any():
        row = _best_single(fit_cache, request, whole, workers)
        return _assign(fit_cache, request, [(row, workers)])
    if request.topology is not None and workers > 1:
        inside = _tightest_domain(fit_cache, request, capacity, workers)
        if inside is not None:
            capacity = inside
        elif request.topology.mode is TopologyMode.REQUIRED:
            return None
    if int(capacity.sum()) < workers:
        return None
    fit = fit_cache.shape_fit(request.shape, request.tenancy, distinct=request.distinct)
    return _assign(fit_cache, request, _spread(fit, capacity, workers))


def _place_one(fit_cache: FitCache, request: PlacementRequest) -> tuple[NodeAssignment, ...] | None:
    """The best row for one worker as the scores stand, without a search."""
    fit: AnyFit
    if request.rows is not None:
        fit = fit_cache.any_class_fit(request)
        scores = fit.node_scores[request.rows]
    else:
        fit = fit_cache.shape_fit(request.shape, request.tenancy, distinct=request.distinct)
        scores = fit.node_scores if request.unrestricted else np.where(request.allowed, fit.node_scores, LOWEST)
    best = int(scores.argmax()) if len(scores) else 0
    if not len(scores) or scores[best] == LOWEST:
        return None
    row = int(request.rows[best]) if isinstance(request.rows, np.ndarray) else best
    if request.shape.count == 1:
        return ((row, ((fit.best_gpu(row),),)),)
    return _assign(fit_cache, request, [(row, 1)])


def _best_single(fit_cache: FitCache, request: PlacementRequest, candidates: BoolArray, workers: int) -> int:
    """The best node for all workers at once: scored as one merged shape where they lie on GPUs of their own."""
    merged = workers > 1 and (request.distinct or request.shape.whole)
    fit = fit_cache.shape_fit(
        request.shape.times(workers) if merged else request.shape, request.tenancy, distinct=request.distinct
    )
    return int(np.where(candidates, fit.node_scores, LOWEST).argmax())


def _spread(fit: AnyFit, capacity: IntArray, workers: int) -> list[tuple[int, int]]:
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


def _assign(
    fit_cache: FitCache, request: PlacementRequest, spread: Sequence[tuple[int, int]]
) -> tuple[NodeAssignment, ...]:
    """GPUs for (row, workers on it). Workers side by side are scored as one merged shape, once per number of them."""
    single = fit_cache.shape_fit(request.shape, request.tenancy, distinct=request.distinct)
    fits = {1: single}
    for workers in {workers for _, workers in spread} - {1}:
        merged = request.distinct or request.shape.whole
        fits[workers] = (
            fit_cache.shape_fit(request.shape.times(workers), request.tenancy, distinct=request.distinct)
            if merged
            else single
        )
    return tuple(_assign_node(fit_cache, request, (single, fits[workers]), row, workers) for row, workers in spread)


def _assign_node(
    fit_cache: FitCache, request: PlacementRequest, fits: tuple[AnyFit, AnyFit], row: int, workers: int
) -> NodeAssignment:
    """GPUs of one node for `workers` of the gang: NVLink peers together, then by the scorer's preference. `fits`: of
    one worker, and of so many."""
    single, together = fits
    wanted = together.gpu_scores(row).tolist()
    columns = [column for column in np.flatnonzero(single.fits(row)).tolist() if (row, column) not in request.excluded]
    suspects = fit_cache.ledger.inventory.suspects
    columns.sort(key=lambda column: ((row, column) in suspects, -wanted[column], column))
    count = request.shape.count
    if not request.distinct and not request.shape.whole:
        shares = shares_per_gpu(fit_cache.ledger, request.shape, np.array([row]))[0]
        columns = [column for column in columns for _ in range(int(shares[column]))]
    elif workers * count > 1:
        columns = _peers_first(fit_cache.ledger.inventory.nvlink_group[row], columns, workers * count)
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


def cap_by_zone(fit_cache: FitCache, request: PlacementRequest, capacity: IntArray) -> IntArray:
    """Capacity cut to what quotas leave in each zone, fullest rows first kept."""
    if not request.zone_workers:
        return capacity
    inventory = fit_cache.ledger.inventory
    limited = capacity.copy()
    for number, zone in enumerate(inventory.zones):
        if zone in request.zone_workers:
            rows = np.flatnonzero((inventory.zone == number) & (capacity > 0))
            rows = rows[np.lexsort((rows, -capacity[rows]))]
            before = np.cumsum(capacity[rows]) - capacity[rows]
            limited[rows] = np.clip(request.zone_workers[zone] - before, 0, capacity[rows])
    return limited


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
    if request.topology is None:
        return None
    inventory = fit_cache.ledger.inventory
    if request.topology.level == "zone":
        return inventory.zone
    return inventory.rack if request.topology.level == "rack" else np.arange(len(inventory.nodes), dtype=np.int64)


def _tightest_domain(
    fit_cache: FitCache, request: PlacementRequest, capacity: IntArray, workers: int
) -> IntArray | None:
    domain = _domain_of(fit_cache, request)
    if domain is None or not len(domain):
        return capacity
    totals = np.bincount(domain, weights=capacity).astype(np.int64)
    enough = np.flatnonzero(totals >= workers)
    if not len(enough):
        return None
    chosen = int(enough[np.argmin(totals[enough])])
    return np.where(domain == chosen, capacity, 0)
