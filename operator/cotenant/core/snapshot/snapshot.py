"""The world at one moment, as a value: all that `schedule` is told. Made by `ClusterState`, tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from cotenant.core.model.objects import Job, JobKey, Node, Placement, TenantQueue
from cotenant.core.placement.shapes import Shape
from cotenant.core.snapshot.accounting import Accounting


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayedBorrowing:
    """What one queue has borrowed before: milli-GPU-seconds, decayed with this half-life."""

    queue: str
    milli_seconds: float
    half_life_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The world at one moment, as a value. Order of the tuples carries no meaning."""

    now: float
    watched_since: float = -inf
    """Since when somebody looks: what has not been seen since then may merely not have been seen yet."""
    nodes: tuple[Node, ...] = ()
    queues: tuple[TenantQueue, ...] = ()
    jobs: tuple[Job, ...] = ()
    """Pending jobs and jobs that hold a placement. Finished, suspended and invalid jobs are not here."""
    usage_history: tuple[DecayedBorrowing, ...] = ()
    """Decayed borrowing of each queue that has any, as kept by the state between cycles."""
    nominations: tuple[tuple[JobKey, Placement], ...] = ()
    """Places that an earlier plan is making free for jobs that still wait (`Plan.promises`)."""
    nominated_earlier: tuple[JobKey, ...] = ()
    """Waiting jobs for which an earlier leader was making room (`Handover`); `promises` of which the place is lost."""
    demand_history: tuple[tuple[Shape, float], ...] = ()
    """Shapes of jobs that came lately, with decayed weights: what placement learns the mix from. Nobody sets it:
    `ClusterState` learns it."""
    accounting: Accounting | None = field(default=None, compare=False, repr=False)
    """The same world already counted, by `ClusterState`. Never says anything that the other fields do not say."""
