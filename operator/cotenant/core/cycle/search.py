"""The best place for a gang in a given occupancy, under every rule: quotas on the path, GPUs, CPU, memory, topology.

A request lists ways to run (`Option`). Quotas limit each of them (`headroom`), and the gang is then placed by `gang`.
Nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.placements import placement_of
from cotenant.core.allocation.request import Option, Request
from cotenant.core.model.objects import Placement
from cotenant.core.placement.gang import max_workers, place_gang
from cotenant.core.placement.gang_request import NodeAssignment, PlacementRequest, fit_of
from cotenant.core.placement.nvlink import linkage
from cotenant.core.placement.spreading import crowding
from cotenant.core.queueing.fair_share import charge_within_guarantee
from cotenant.core.quota.headroom import Headroom, headroom_of, limit_to_guarantees
from cotenant.core.quota.tree import Bucket
from cotenant.core.quota.usage import Charge, Usage

_Way: TypeAlias = tuple[tuple[int, ...], Option, tuple[NodeAssignment, ...]]
"""(rank: how close the workers of a gang that is to be spread, nodes, −linkage, −score, place among the options; the
option; its nodes and GPUs)."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementResult:
    """A place for a whole gang, not yet allocated."""

    placement: Placement
    allocation: Allocation


def fits(occupancy: Occupancy, request: Request) -> bool:
    """`find` would find a place."""
    return any(
        max_workers(occupancy.fit_cache, wanted) >= request.workers
        for _, wanted in _allowed_options(occupancy, request, request.workers)
    )


def find(occupancy: Occupancy, request: Request, workers: int) -> PlacementResult | None:
    """The best place for the gang, or None. If the tenant orders the classes, the first class that fits is taken.
    Otherwise the fewest nodes win, or the widest spread if one is asked for; then NVLink, then the scores."""
    found: list[_Way] = []
    for index, (option, wanted) in enumerate(_allowed_options(occupancy, request, workers)):
        if not option.gpu_class and (result := _best(occupancy, request, found)) is not None:
            return result  # a mix of classes is the last resort
        assignments = place_gang(occupancy.fit_cache, wanted, workers)
        if assignments is None:
            continue
        if request.ranked or len(request.options) == 1:
            if (result := _result(occupancy, request, option, assignments)) is not None:
                return result
            continue
        linked = linkage(occupancy.inventory, assignments)
        apart = crowding(occupancy.inventory, wanted, assignments)
        fit = fit_of(occupancy.fit_cache, wanted)
        score = sum(fit.score(row) for row, _ in assignments)
        found.append(((*apart, len(assignments), -linked, -score, index), option, assignments))
    return _best(occupancy, request, found)


def _best(occupancy: Occupancy, request: Request, ways: list[_Way]) -> PlacementResult | None:
    """The first of the ways, in order of their rank, that may be taken."""
    for _, option, assignments in sorted(ways, key=lambda way: way[0]):
        if (result := _result(occupancy, request, option, assignments)) is not None:
            return result
    return None


def within_guarantees(occupancy: Occupancy, charge: Charge, *, is_counted: bool = False) -> bool:
    """True if the charge lies inside every guarantee on the path of its queue. Jobs that cannot be evicted must not
    borrow. `is_counted`: it is used already."""
    path = occupancy.tree.paths[charge.queue]
    return all(charge_within_guarantee(occupancy.usage, queue, charge, is_counted=is_counted) for queue in path)


def headroom(usage: Usage, request: Request, option: Option, idle: Mapping[Bucket, int] | None) -> Headroom:
    """Workers that limits still allow, and guarantees if the job is not preemptible. `idle`: as for `headroom_of`."""
    if not option.limited and request.job.preemptible:
        return _UNLIMITED
    allowed = headroom_of(usage, request.queue, request.job.user, option.gpu_class, option.cost, idle=idle)
    if not request.job.preemptible:
        limit_to_guarantees(allowed, usage, request.queue, option.buckets, milli=option.cost.milli)
    return allowed


_UNLIMITED = Headroom()


def _allowed_options(occupancy: Occupancy, request: Request, workers: int) -> Iterator[tuple[Option, PlacementRequest]]:
    """Ways to run for which quotas allow so many workers, with what they allow in each zone."""
    idle = occupancy.lendable_idle()
    for option in request.options:
        allowed = headroom(occupancy.usage, request, option, idle)
        if allowed.workers >= workers:
            wanted = option.placement_request
            yield option, replace(wanted, zone_workers=allowed.zone_workers) if allowed.zone_workers else wanted


def _result(
    occupancy: Occupancy, request: Request, option: Option, assignments: tuple[NodeAssignment, ...]
) -> PlacementResult | None:
    wanted = option.placement_request
    placement = placement_of(assignments, wanted.shape, occupancy.inventory)
    allocation = allocation_of(request.job, placement, occupancy.inventory, occupancy.tree)
    if not request.job.preemptible and not within_guarantees(occupancy, allocation.charge):
        return None
    return PlacementResult(placement, allocation)
