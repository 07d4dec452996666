"""Small jobs may go first, but not at the expense of a large one that waits for its GPUs: EASY backfill.

In each GPU class the first job that finds no space, and whose start can be estimated, gets a *reservation*: the place
that it will have then. A job later in the order may use those GPUs only if it will have ended by that time:
    now + maximum (or expected) runtime  ≤  estimated start of the reservation
(EASY: Lifka, JSSPP 1995; Slurm's backfill is of the same family). Jobs without a declared runtime go elsewhere.
Example: 8 GPUs, 6 busy for 10 minutes more, a gang of 8 waits: a job of 5 minutes takes a free one, a job of an hour
does not.

A backfilled job that runs longer than it declared is the first to be evicted: by jobs of its own queue, and by jobs of
any queue if it runs on borrowed GPUs (`victims`). So a false declaration delays a reservation by one eviction only.
Reservations last one cycle and are made only for starts within `Policy.reserve_within_s`, so GPUs stand idle for a
known and short time. GPUs that are kept for bookings (`booked_places`) are backfilled in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.booked_places import BookedPlaces
from cotenant.core.cycle.search import PlacementResult, find
from cotenant.core.explain.forecast import Forecast
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Refusal
from cotenant.core.quota.usage import Charge


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """A place that is becoming free and is kept for a job that waits."""

    job: JobKey
    starts_at: float
    allocation: Allocation
    """GPUs, CPU and memory. The queue's quota is reserved with them only if `is_collected`."""
    is_collected: bool = False
    """Reserved for an overdue job until it starts. Only jobs with a `maxRuntime` may backfill it; `expectedRuntime` is
    not enough."""


@dataclass(frozen=True, slots=True, eq=False)
class Backfill:
    """A start on GPUs that are reserved for another job."""

    result: PlacementResult
    ends_at: float | None
    """When it declares to have ended. None if it lies only on GPUs kept for bookings: there it promises nothing."""


class Reservations:
    """Reservations of one cycle, at most one per GPU class."""

    __slots__ = ("_booked", "_by_class", "_moment", "_tried", "_within_s")

    def __init__(self, moment: Moment, within_s: int, booked: BookedPlaces) -> None:
        """`within_s`: places are kept for starts that are no further away."""
        self._moment, self._within_s, self._booked = moment, within_s, booked
        self._by_class: dict[str, Reservation | None] = {}
        """GPU class → the reservation of the first job that waits there, if its start could be estimated."""
        self._tried: set[tuple[Request, frozenset[str]]] = set()
        """(request, jobs and bookings whose places were open to it) of attempts that found no place."""

    def all(self) -> list[Reservation]:
        """All reservations; one that lies in several classes is listed once."""
        return list({kept.job: kept for kept in self._by_class.values() if kept is not None}.values())

    def reserve(
        self, job: Job, request: Request, refusal: Refusal, forecast: Callable[[], Forecast]
    ) -> Reservation | None:
        """The place that the job will have, if it is the first that waits for space in its classes: no later one gets a
        reservation there. None if it starts too far away or at an unknown time."""
        if not refusal.waits_for_space or self.is_claimed(request):
            return None
        self._by_class.update(dict.fromkeys(request.classes))
        start = forecast().start_of(request)
        if start is None or not self._moment.has_come(start.at - self._within_s):
            return None
        kept = Reservation(job.key, start.at, Allocation(start.result.allocation.nodes, Charge(-1, "", ())))
        for bucket, _ in start.result.allocation.charge.amounts:
            self._by_class[bucket[0]] = kept
        return kept

    def collect(self, kept: Reservation) -> None:
        """Reserve a place of an overdue job: no other job gets a reservation in its classes. Quota without GPUs is
        reserved besides other reservations."""
        for bucket, _ in kept.allocation.charge.amounts if kept.allocation.nodes else ():
            self._by_class[bucket[0]] = kept

    def is_claimed(self, request: Request) -> bool:
        """True if some class of the request has a reservation, or was claimed for one."""
        return any(name in self._by_class for name in request.classes)

    def backfill(self, job: Job, request: Request, current: Occupancy) -> Backfill | None:
        """A place on reserved GPUs for a job that will have ended in time."""
        of_jobs = {
            kept.job: kept.allocation
            for kept in self.all()
            if declares_to_end_by(job, kept.starts_at, self._moment, for_sure=kept.is_collected)
        }
        open_to_it = of_jobs | self._of_bookings(job, request)
        attempt = request, frozenset(open_to_it)
        if not open_to_it or attempt in self._tried:
            return None
        with current.trial():
            for allocation in open_to_it.values():
                current.release(allocation)
            result = find(current, request, request.workers)
        if result is None:
            self._tried.add(attempt)
            return None
        runtime_s = job.max_runtime_s or job.expected_runtime_s
        return Backfill(result, self._moment.read() + runtime_s if of_jobs and runtime_s is not None else None)

    def _of_bookings(self, job: Job, request: Request) -> dict[str, Allocation]:
        """Booking → its kept place, if the job may use that until the booking starts."""
        booked = self._booked
        return {
            place.booking.name: place.allocation
            for place in booked.places
            if place.allocation.nodes and booked.concerns(place, request) and booked.admits(place, job, request)
        }

    def clear(self) -> None:
        self._by_class.clear()


def declares_to_end_by(job: Job, at: float, moment: Moment, *, for_sure: bool) -> bool:
    """True if the job, started now, declares to have ended by then. `for_sure`: `expectedRuntime` is not enough."""
    runtime_s = job.max_runtime_s or (None if for_sure else job.expected_runtime_s)
    return runtime_s is not None and not moment.is_past(at - runtime_s)
