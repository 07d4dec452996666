"""The request for a gang's place, and the number of its workers that each node could take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from cotenant.core.gpus.inventory import IntArray, Inventory, Rows
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Level, Spread, Topology, TopologyMode
from cotenant.core.placement.chief import chief_capacity
from cotenant.core.placement.fit_cache import FitCache, ShapeFit
from cotenant.core.placement.fitting import Tenancy, shares_per_gpu, stacked_workers
from cotenant.core.placement.shapes import Shape

NodeAssignment: TypeAlias = tuple[int, tuple[tuple[int, ...], ...]]
"""(row, columns of each worker on it)."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRequest:
    """One way to run a gang: a shape, a tenant, and the rows and GPUs that may serve."""

    shape: Shape
    tenancy: Tenancy
    rows: Rows
    """Rows in the job's zones that have GPUs of the shape's classes, without nodes that failed it; numbers ascend."""
    distinct: bool = True
    topology: Topology | None = None
    spread: Spread | None = None
    domain_workers: dict[int, int] = field(default_factory=dict)
    """Domain of the spread's level → workers of the job that lie there already."""
    zone_workers: dict[str, int] = field(default_factory=dict)
    """Zone → workers that quotas allow there; zones that are not named are not limited."""
    excluded: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of GPUs that must not serve: the job's other ranks lie on them, or they are suspect."""
    chief: Shape | None = None
    """Shape of rank 0, if it asks for more CPU or host memory than the others. None also if rank 0 has its place."""

    @property
    def spread_yields(self) -> bool:
        """True if the gang is rather placed without its spread than not at all: that keeps room on fewer nodes."""
        return self.chief is not None and self.spread is not None and self.spread.mode is TopologyMode.PREFERRED

    def with_chief(self, ledger: Ledger, capacity: IntArray) -> IntArray:
        """[N] workers that each row takes if rank 0 is one of them. `capacity`: of other rows."""
        return capacity if self.chief is None else chief_capacity(ledger, self.chief, self.shape, capacity)


def fit_of(fit_cache: FitCache, request: PlacementRequest, workers: int = 1) -> ShapeFit:
    """Fits and scores of so many workers side by side. If they lie on GPUs of their own, they are one merged shape."""
    shape = request.shape
    if workers > 1 and (request.distinct or shape.whole):
        shape = shape.times(workers)
    return fit_cache.shape_fit(shape, request.tenancy, distinct=request.distinct)


def capacity_per_node(fit_cache: FitCache, request: PlacementRequest) -> IntArray:
    """[N] workers that each row takes; quotas of zones are not applied yet. If they limit the gang, or it is
    spread, each row keeps room for the chief."""
    fit = fit_of(fit_cache, request)
    found = np.zeros(len(fit.capacity), dtype=np.int64)
    found[request.rows] = fit.capacity[request.rows]
    for row in {row for row, _ in request.excluded}:
        left = [
            column for column in np.flatnonzero(fit.all_fits()[row]).tolist() if (row, column) not in request.excluded
        ]
        if request.distinct or request.shape.whole:
            workers = len(left) // max(1, request.shape.count)
        else:
            shares = shares_per_gpu(fit_cache.ledger, request.shape, np.array([row]))[:, left]
            workers = int(stacked_workers(shares, request.shape.count)[0])
        found[row] = min(int(found[row]), workers)
    if request.spread is not None or request.zone_workers:
        found = request.with_chief(fit_cache.ledger, found)
    return found


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


def domains_of(inventory: Inventory, level: Level) -> IntArray:
    """[N] number of the node, rack or zone that each row lies in."""
    if level == "zone":
        return inventory.zone
    return inventory.rack if level == "rack" else np.arange(len(inventory.nodes), dtype=np.int64)
