"""A cycle after its last turn: what was handed out and reserved. The plan and the advice follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeAlias

from cotenant.core.actions.backfill import Reservation
from cotenant.core.actions.tenure import Tenures, waiting_order
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry, EntryOutcome
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Plan
from cotenant.core.queueing.fair_share import DominantShares
from cotenant.core.queueing.line import Line
from cotenant.core.scheduling.admission import Admission
from cotenant.core.scheduling.decision import Standings

OverdueTurn: TypeAlias = tuple[bool, float, JobKey]
"""Order of the turns of overdue jobs: those that have to borrow last; then by the beginning of the wait, and by key."""


@dataclass(frozen=True, slots=True, eq=False)
class PlaceAhead:
    """A place that was reserved before a job had its turn: for a booking, an overdue job, or a job that may be
    passed."""

    starts_at: float
    """When it is taken. Minus infinity: quota alone is reserved, and no run time is short enough to use it."""
    allocation: Allocation
    rival: Job | None = None
    """The job that may be passed: another job of its queue may come before it, or use the place if its
    `expectedRuntime` is over in time. None: only a `maxRuntime` is short enough."""
    overdue: OverdueTurn | None = None
    """The turn of the overdue job."""
    claimed: frozenset[str] = frozenset()
    """Classes of GPUs in which places may have been reserved before that turn."""


@dataclass(frozen=True, slots=True, eq=False)
class TurnsTaken:
    cycle: Cycle
    requests: RequestResolver
    lines: Mapping[str, Line]
    """Queue → its line. Only queues that set bounds for waiting jobs have one."""
    admission: Admission
    reservations: Sequence[Reservation]
    """All that were made while turns were taken."""
    waiting: Sequence[tuple[Entry, Request]]
    """Entries that had a turn and wait, in the order of their turns, with their requests."""
    shares: DominantShares
    jobs: Sequence[Job]
    """Jobs that had a turn; `shares` ordered them."""

    def plan(self) -> Plan:
        return replace(self.cycle.outcome.plan(self.cycle.entries), booked=self.admission.booked.found())

    def standings(self, plan: Plan) -> Standings | None:
        """None if the plan cannot be reused: it has actions, or a turn changed the shares that ordered later turns."""
        is_quiet = not plan.actions and not self.admission.gave
        return Standings.of(self.shares, self.admission.usage, self.jobs) if is_quiet else None

    def places_ahead(self) -> Iterator[tuple[Entry, Sequence[PlaceAhead]]]:
        """Waiting entries in the order of their turns, each with the places that were reserved before its turn.

        Then entries that can never start as written: they took no turn, and get all reserved places.
        """
        tenures, collections = self.admission.tenures, self.admission.collections
        reservations = {one.job: one for one in self.reservations}
        ahead = tuple(
            PlaceAhead(place.booking.starts_at, place.allocation)
            for place in self.admission.booked.places
            if place.allocation.nodes
        )
        claimed: set[str] = set()
        for entry, request in self.waiting:
            yield entry, ahead
            job = entry.job
            if (collection := collections.get(job.key)) is not None:
                starts_at = -inf if collection.of_quota else collection.reservation.starts_at
                overdue = overdue_turn(tenures, job, request)
                place = PlaceAhead(starts_at, collection.reservation.allocation, None, overdue, frozenset(claimed))
                ahead = (*ahead, place)
            elif (reservation := reservations.get(job.key)) is not None:
                ahead = (*ahead, PlaceAhead(reservation.starts_at, reservation.allocation, job))
            if entry.reason is not None and entry.reason.waits_for_space:
                claimed.update(request.classes)
        yield from ((entry, ahead) for entry in self.cycle.entries if entry.outcome is EntryOutcome.INADMISSIBLE)


def overdue_turn(tenures: Tenures, job: Job, request: Request) -> OverdueTurn | None:
    """None if the job is not overdue."""
    return (not tenures.is_entitled(request), *waiting_order(job)) if tenures.is_overdue(job) else None
