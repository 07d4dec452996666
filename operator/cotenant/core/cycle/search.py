"""The best place for a gang in given books, under every rule: quotas on the queue's path, GPUs, CPU, memory, topology.

A request lists ways to run (`Option`); each is asked what quotas leave (`headroom`) and then where it fits
(`placement.gang`). Nothing is taken. `Search` belongs to a cycle; preemption, backfill and forecasts ask through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cotenant.core.allocation.allocation import Holding, taken
from cotenant.core.allocation.books import Books
from cotenant.core.allocation.placements import placement_of
from cotenant.core.allocation.request import Option, Request
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import JobKey, Placement
from cotenant.core.placement.gang import Ask, Pick, most, place
from cotenant.core.queueing.fair_share import charge_entitled
from cotenant.core.quota.tree import Bucket, QueueTree
from cotenant.core.quota.usage import Headroom, Usage


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A place for a whole gang, not yet taken."""

    option: Option
    placement: Placement
    holding: Holding


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """A place that is coming free and is kept for a job that waits; made and lifted by `backfill`."""

    job: JobKey
    starts_at: float
    holding: Holding
    """GPUs, CPU and memory; nothing of the queue's quota."""


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    inventory: Inventory
    tree: QueueTree

    def fits(self, books: Books, request: Request) -> bool:
        """Whether `find` would find a place, without choosing one."""
        return any(
            most(books.room, ask) >= request.workers for _, ask in self._allowed(books, request, request.workers)
        )

    def find(self, books: Books, request: Request, workers: int) -> Found | None:
        """The best place for the gang. The tenant's order of classes decides; without one the fewest nodes do, then the
        scores."""
        best: tuple[tuple[int, int, int], Found] | None = None
        for index, (option, ask) in enumerate(self._allowed(books, request, workers)):
            if best is not None and not option.gpu_class:
                break  # a mix of classes is the last way
            picks = place(books.room, ask, workers)
            found = None if picks is None else self._found(books, request, option, picks)
            if picks is None or found is None:
                continue
            if request.ranked or len(request.options) == 1:
                return found
            rank = (len(picks), -_score(books, ask, picks), index)
            if best is None or rank < best[0]:
                best = rank, found
        return None if best is None else best[1]

    def confined(self, books: Books, request: Request, holding: Holding) -> bool:
        """Inside every guarantee on the path: what cannot be taken back is never lent."""
        return all(charge_entitled(books.usage, step, holding.charge) for step in self.tree.paths[request.queue])

    def _allowed(self, books: Books, request: Request, workers: int) -> Iterator[tuple[Option, Ask]]:
        """Ways to run that quotas leave room for, with what they leave in each zone."""
        idle = books.ledger.idle() if self.tree.holds_back else None
        for option in request.options:
            room = headroom(books.usage, request, option, idle)
            if room.total >= workers:
                yield option, replace(option.ask, zone_room=room.zones) if room.zones else option.ask

    def _found(self, books: Books, request: Request, option: Option, picks: tuple[Pick, ...]) -> Found | None:
        shape = option.ask.shape
        holding = taken(picks, request.job, shape, self.inventory, self.tree)
        if not request.job.preemptible and not self.confined(books, request, holding):
            return None
        return Found(option, placement_of(picks, shape, self.inventory), holding)


def _score(books: Books, ask: Ask, picks: tuple[Pick, ...]) -> int:
    score = books.room.view(ask.shape, ask.tenancy, distinct=ask.distinct).open
    return sum(int(score[row]) for row, _ in picks)


_ENDLESS = Headroom()


def headroom(usage: Usage, request: Request, option: Option, idle: Mapping[Bucket, int] | None) -> Headroom:
    if not option.bounded:
        return _ENDLESS
    return usage.headroom(
        request.queue, request.job.user, option.gpu_class, milli=option.milli, mib=option.mib, idle=idle
    )
