"""The cluster at one moment, as a value: everything that `schedule` reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from cotenant.core.model.objects import Job, JobKey, Node, Placement, TenantQueue
from cotenant.core.placement.shapes import Demand
from cotenant.core.quota.bookings import BookingStanding
from cotenant.core.runtimes.learned import NOTHING_LEARNED, LearnedRuntimes
from cotenant.core.snapshot.accounting import Accounting


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayedBorrowing:
    """Past borrowing of one queue: milli-GPU-seconds, decayed with this half-life."""

    queue: str
    milli_seconds: float
    half_life_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The order of the tuples carries no meaning."""

    now: float
    watched_since: float = -inf
    """Since when the cluster is observed. Shortly after that, something not seen may still be there."""
    nodes: tuple[Node, ...] = ()
    queues: tuple[TenantQueue, ...] = ()
    """Queues with the grants and bookings that count at this moment."""
    jobs: tuple[Job, ...] = ()
    """Pending jobs and jobs that hold a placement. Finished, suspended and invalid jobs are not here."""
    usage_history: tuple[DecayedBorrowing, ...] = ()
    """Decayed borrowing of each queue that has any, as kept by the state between cycles."""
    nominations: tuple[tuple[JobKey, Placement], ...] = ()
    """Places that an earlier plan is making free for jobs that still wait (`Plan.nominations`)."""
    nominated_earlier: tuple[JobKey, ...] = ()
    """Waiting jobs that an earlier leader had nominated (`FailoverState`); their places are not known any more."""
    evicted: tuple[JobKey, ...] = ()
    """Jobs that were evicted for another since anything last arrived, departed or changed (`state.changes`)."""
    bookings: tuple[BookingStanding, ...] = ()
    """Bookings that are not over, in the order in which they were made."""
    booked: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """Name of a booking → (node, UUID) of the GPUs that were kept for it last (`Plan.booked`)."""
    unbooked: tuple[TenantQueue, ...] = field(default=(), compare=False, repr=False)
    """The queues without what is booked for them: estimates begin and end bookings. Empty: nothing is booked."""
    demand_history: tuple[Demand, ...] = ()
    """What jobs that wait, run or ended lately asked for when they arrived (`DemandHistory`): placement learns the
    workload mix from it."""
    runtimes: LearnedRuntimes = NOTHING_LEARNED
    """Run times of jobs that ended lately."""
    accounting: Accounting | None = field(default=None, compare=False, repr=False)
    """The same cluster already counted. Follows from the other fields; None: count it."""
