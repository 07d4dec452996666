"""The best place for a gang in given books, under every rule: quotas on the queue's path, GPUs, CPU, memory, topology.

A request lists ways to run (`Option`); each is asked what quotas leave (`headroom`) and then where it fits
(`placement.gang`). Nothing is taken. `Search` belongs to a cycle; preemption, backfill and forecasts ask through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cotenant.core.allocation.allocation import Allocation, allocation_of_assignments
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.placements import placement_of
from cotenant.core.allocation.request import Option, Request
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import JobKey, Placement
from cotenant.core.placement.gang import NodeAssignment, PlacementRequest, max_workers, place_gang
from cotenant.core.queueing.fair_share import charge_within_guarantee
from cotenant.core.quota.tree import Bucket, QueueTree
from cotenant.core.quota.usage import Headroom, Usage


@dataclass(frozen=True, slots=True, eq=False)
class PlacementResult:
    """A place for a whole gang, not yet taken."""

    option: Option
    placement: Placement
    allocation: Allocation


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """A place that is coming free and is kept for a job that waits; made and lifted by `backfill`."""

    job: JobKey
    starts_at: float
    allocation: Allocation
    """GPUs, CPU and memory; nothing of the queue's quota."""


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    inventory: Inventory
    tree: QueueTree

    def fits(self, books: Occupancy, request: Request) -> bool:
        """Whether `find` would find a place, without choosing one."""
        return any(
            max_workers(books.fit_cache, ask) >= request.workers
            for _, ask in self._allowed_options(books, request, request.workers)
        )

    def find(self, books: Occupancy, request: Request, workers: int) -> PlacementResult | None:
        """The best place for the gang. The tenant's order of classes decides; without one the fewest nodes do, then the
        scores."""
        best: tuple[tuple[int, int, int], PlacementResult] | None = None
        for index, (option, ask) in enumerate(self._allowed_options(books, request, workers)):
            if best is not None and not option.gpu_class:
                break  # a mix of classes is the last way
            picks = place_gang(books.fit_cache, ask, workers)
            found = None if picks is None else self._found(books, request, option, picks)
            if picks is None or found is None:
                continue
            if request.ranked or len(request.options) == 1:
                return found
            rank = (len(picks), -_score(books, ask, picks), index)
            if best is None or rank < best[0]:
                best = rank, found
        return None if best is None else best[1]

    def within_guarantees(self, books: Occupancy, request: Request, holding: Allocation) -> bool:
        """Inside every guarantee on the path: what cannot be taken back is never lent."""
        return all(
            charge_within_guarantee(books.usage, step, holding.charge) for step in self.tree.paths[request.queue]
        )

    def _allowed_options(
        self, books: Occupancy, request: Request, workers: int
    ) -> Iterator[tuple[Option, PlacementRequest]]:
        """Ways to run that quotas leave room for, with what they leave in each zone."""
        idle = books.ledger.idle() if self.tree.limits_lending else None
        for option in request.options:
            room = headroom(books.usage, request, option, idle)
            if room.workers >= workers:
                yield (
                    option,
                    replace(option.placement_request, zone_workers=room.zone_workers)
                    if room.zone_workers
                    else option.placement_request,
                )

    def _found(
        self, books: Occupancy, request: Request, option: Option, picks: tuple[NodeAssignment, ...]
    ) -> PlacementResult | None:
        shape = option.placement_request.shape
        holding = allocation_of_assignments(picks, request.job, shape, self.inventory, self.tree)
        if not request.job.preemptible and not self.within_guarantees(books, request, holding):
            return None
        return PlacementResult(option, placement_of(picks, shape, self.inventory), holding)


def _score(books: Occupancy, ask: PlacementRequest, picks: tuple[NodeAssignment, ...]) -> int:
    score = books.fit_cache.shape_fit(ask.shape, ask.tenancy, distinct=ask.distinct).node_scores
    return sum(int(score[row]) for row, _ in picks)


_ENDLESS = Headroom()


def headroom(usage: Usage, request: Request, option: Option, idle: Mapping[Bucket, int] | None) -> Headroom:
    if not option.limited:
        return _ENDLESS
    return usage.headroom(
        request.queue, request.job.user, option.gpu_class, milli=option.milli, mib=option.mib, idle=idle
    )
