"""Spreading a gang over nodes, racks or zones: as evenly as there is room, one more worker where fewest are.

Three bounds hold: what the nodes of a domain take, what quotas leave in a zone, and the most workers in one domain if
the spread is required. The bounds are nested, so they form a matroid. So a greedy choice is exact: give one worker
after the other to the domain that has fewest. It places all workers if that is possible at all, and no other way has a
smaller maximum (Edmonds, "Matroids and the greedy algorithm", 1971). Example: nodes that take 4, 2 and 1 workers, a
gang of 5 → 2, 2 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from cotenant.core.gpus.inventory import IntArray, Inventory
from cotenant.core.model.objects import Spread, TopologyMode
from cotenant.core.placement.gang_request import NodeAssignment, PlacementRequest, domains_of

DomainWorkers = list[tuple[int, int]]
"""(domain, workers there)."""


def spread_capacity(inventory: Inventory, request: PlacementRequest, capacity: IntArray) -> IntArray:
    """[N] workers that each domain takes under the spread, if that is required, all of them noted at its first row:
    rows of a domain lie in one zone, and in one domain of the topology, which is of a higher level."""
    spread = request.spread
    if spread is None or spread.mode is TopologyMode.PREFERRED or not len(capacity):
        return capacity
    domain = domains_of(inventory, spread.level)
    room = _room(request, spread, np.bincount(domain, weights=capacity).astype(np.int64))
    present, first = np.unique(domain, return_index=True)
    folded = np.zeros_like(capacity)
    folded[first] = room[present]
    return folded


def even_spread(
    inventory: Inventory, request: PlacementRequest, capacity: IntArray, scores: IntArray, workers: int
) -> DomainWorkers | None:
    """Workers of each domain that gets some; None where not all have a place. `capacity` and `scores`: [N] of the rows,
    for one worker; of domains with equally many workers the one with the best row goes first."""
    spread = request.spread
    if spread is None or not len(capacity):
        return None
    domain = domains_of(inventory, spread.level)
    room = _room(request, spread, np.bincount(domain, weights=capacity).astype(np.int64))
    best = np.full(len(room), np.iinfo(np.int64).min)
    np.maximum.at(best, domain, scores)
    zone_of = np.zeros(len(room), dtype=np.int64)
    zone_of[domain] = inventory.zone
    zone_left = {
        number: request.zone_workers[zone]
        for number, zone in enumerate(inventory.zones)
        if zone in request.zone_workers
    }
    there = request.domain_workers
    heap = [(there.get(one, 0), -int(best[one]), one) for one in np.flatnonzero(room > 0).tolist()]
    heapify(heap)
    given: dict[int, int] = {}
    for _ in range(workers):
        while heap and zone_left.get(int(zone_of[heap[0][2]]), 1) <= 0:
            heappop(heap)
        if not heap:
            return None
        number, score, one = heappop(heap)
        given[one] = given.get(one, 0) + 1
        if int(zone_of[one]) in zone_left:
            zone_left[int(zone_of[one])] -= 1
        if given[one] < room[one]:
            heappush(heap, (number + 1, score, one))
    return sorted(given.items())


def regions(inventory: Inventory, request: PlacementRequest, capacity: IntArray, workers: int) -> Iterator[IntArray]:
    """[N] capacity inside one domain of the topology, the tightest that could take all first; then everywhere, unless
    the topology is required."""
    topology = request.topology
    if topology is None:
        yield capacity
        return
    domain = domains_of(inventory, topology.level)
    held = spread_capacity(inventory, request, capacity)
    totals = np.bincount(domain, weights=held).astype(np.int64)
    enough = np.flatnonzero(totals >= workers)
    for chosen in enough[np.argsort(totals[enough], kind="stable")].tolist():
        yield np.where(domain == chosen, capacity, 0)
    if topology.mode is TopologyMode.PREFERRED:
        yield capacity


def crowding(inventory: Inventory, request: PlacementRequest, assignments: Sequence[NodeAssignment]) -> tuple[int, int]:
    """(most workers in one domain of the spread, −domains with workers): less is spread better."""
    if request.spread is None:
        return 0, 0
    domain = domains_of(inventory, request.spread.level)
    found = dict(request.domain_workers)
    for row, workers in assignments:
        found[int(domain[row])] = found.get(int(domain[row]), 0) + len(workers)
    return max(found.values(), default=0), -len(found)


def _room(request: PlacementRequest, spread: Spread, totals: IntArray) -> IntArray:
    """[D] workers that each domain still takes."""
    if spread.mode is TopologyMode.PREFERRED:
        return totals
    most = np.full(len(totals), spread.most, dtype=np.int64)
    for domain, workers in request.domain_workers.items():
        most[domain] -= workers
    return np.minimum(totals, np.maximum(most, 0))
