"""Plans: actions to carry out, and one verdict for every job that still waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import TypeAlias

from cotenant.core.model.measure import BindingLimit
from cotenant.core.model.objects import Job, JobKey, Placement


class Reason(StrEnum):
    """Dominant reason for which a job waits. Printed as is in `kubectl get tj`."""

    QUEUE_NOT_FOUND = "QueueNotFound"
    NAMESPACE_NOT_SERVED = "NamespaceNotServed"
    NO_QUOTA = "NoQuota"
    """Nothing in the queue's tree grants this class, zone or user anything."""
    EXCEEDS_LIMIT = "ExceedsLimit"
    """Asks for more than a limit that does not move: it can never start as written."""
    WAITING_FOR_QUOTA = "WaitingForQuota"
    BUDGET_SPENT = "BudgetSpent"
    PRIORITY_NOT_ALLOWED = "PriorityNotAllowed"
    """Outside the priorities that the queue allows."""
    QUEUE_HELD = "QueueHeld"
    """An administrator lets no job of the queue start."""
    TOO_MANY_PENDING = "TooManyPending"
    """Too many jobs of the queue wait; this one takes no part in the cycle."""
    CLASS_NOT_FOUND = "ClassNotFound"
    CLASS_NOT_SHARED = "ClassNotShared"
    """Asks for a share of what is handed out whole."""
    ZONE_NOT_FOUND = "ZoneNotFound"
    EXCEEDS_CLUSTER = "ExceedsCluster"
    """No set of nodes of this cluster, even empty, could hold the gang."""
    WAITING_FOR_GPUS = "WaitingForGPUs"
    WAITING_FOR_CPU_OR_MEMORY = "WaitingForCPUOrMemory"
    WAITING_FOR_TOPOLOGY = "WaitingForTopology"
    GPUS_BOOKED = "GPUsBooked"
    """There would be room on GPUs that are booked for another queue."""
    WAITING_FOR_SPREAD = "WaitingForSpread"
    """There is room, but not on as many nodes, racks or zones as the gang is to be spread over."""
    WAITING_FOR_EVICTION = "WaitingForEviction"
    """Jobs were asked to leave in favour of this one."""
    NODES_NOT_READY = "NodesNotReady"

    @property
    def needs_change(self) -> bool:
        """True if waiting alone does not help: the job, its queue or the cluster has to change."""
        return self in _NEEDS_CHANGE


_NEEDS_CHANGE = frozenset(
    {
        Reason.QUEUE_NOT_FOUND,
        Reason.NAMESPACE_NOT_SERVED,
        Reason.NO_QUOTA,
        Reason.EXCEEDS_LIMIT,
        Reason.PRIORITY_NOT_ALLOWED,
        Reason.QUEUE_HELD,
        Reason.CLASS_NOT_FOUND,
        Reason.CLASS_NOT_SHARED,
        Reason.ZONE_NOT_FOUND,
        Reason.EXCEEDS_CLUSTER,
    }
)


_WAITING_FOR_ARRANGEMENT = frozenset({Reason.WAITING_FOR_TOPOLOGY, Reason.WAITING_FOR_SPREAD})
WAITING_FOR_SPACE = (
    frozenset({Reason.WAITING_FOR_GPUS, Reason.WAITING_FOR_CPU_OR_MEMORY, Reason.GPUS_BOOKED})
    | _WAITING_FOR_ARRANGEMENT
)
"""The queue allows the job; nodes have no place for it now."""

HELPED_BY_MOVES = WAITING_FOR_SPACE - _WAITING_FOR_ARRANGEMENT
"""Moving other jobs aside can help."""

WAITING_FOR_ENDINGS = WAITING_FOR_SPACE | {Reason.WAITING_FOR_QUOTA}
"""Reasons that pass when running jobs end."""


class EvictionKind(StrEnum):
    PREEMPTED = "Preempted"
    """By priority, inside a queue."""
    RECLAIMED = "Reclaimed"
    """Between queues: what was lent is taken back."""
    COLLECTED = "Collected"
    """It borrowed its GPUs, or exceeded the tenure limit, and leaves for a job that is overdue."""
    OVERRAN = "Overran"
    """It was backfilled on GPUs reserved for another job, and did not end when it had declared to."""
    MOVED = "Moved"
    """Consolidation: evicted to resume elsewhere."""
    NODE_LOST = "NodeLost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    job: JobKey
    placement: Placement
    backfilled_until: float | None = None
    """Set if these GPUs are reserved for another job: when this one declares to have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """The job gives its whole placement back and is requeued. Applied before any admission."""

    job: JobKey
    kind: EvictionKind
    in_favour_of: JobKey | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """An elastic job grows or shrinks to this placement."""

    job: JobKey
    placement: Placement
    message: str


Action: TypeAlias = Admit | Evict | Resize


def overlay(job: Job, action: Action, at: float) -> Job:
    """The job once the action is carried out, at `at` in Unix seconds: the next decision reads it before the cluster
    shows it.
    """
    if isinstance(action, Evict):
        return replace(job, evicting=job.placement is not None)
    if isinstance(action, Admit):
        until = action.backfilled_until
        return replace(job, placement=action.placement, admitted_at=at, backfilled_until=until, evicting=False)
    return replace(job, placement=action.placement, resizing_from=job.resizing_from or job.placement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The reason for which one job waits, with the evidence, for the tenant who has to act on it."""

    job: JobKey
    reason: Reason
    message: str
    """One sentence for a person: what was asked, what there is, what would change it."""
    evidence: tuple[tuple[str, str | int], ...] = ()
    """Machine-readable: metric, scope, limit, used, asked, available …"""
    estimated_start_at: float | None = None
    """The median estimate. Estimates are added to a plan after the decision, from played futures (`outlook`)."""
    latest_start_at: float | None = None
    """The 90th percentile of the estimate."""
    position: int | None = None
    """Place in the order in which waiting jobs are thought to start; 1 is the next."""
    ahead: str = ""
    """Which jobs are expected to start before it, and why: one sentence."""
    starts_by: float | None = None
    """Its latest start, whatever jobs come meanwhile; None: there is no such bound."""
    starts_by_basis: str = ""
    """If there is no latest start, the reason, and what would give one."""
    would_start_if: str = ""
    """The smallest change with which it would start at once, in words."""
    change: tuple[tuple[str, str], ...] = ()
    """The same as fields of the job's document: (path, value as JSON; null: left out). Empty where it is not the job's
    document that has to change."""


@dataclass(frozen=True, slots=True)
class StartBound:
    """Time at which a job has started at the latest."""

    at: float = inf
    """Infinity: there is no bound."""
    basis: str = ""
    """See `Verdict.starts_by_basis`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason to wait, without the name of the job: equal requests share it."""

    reason: Reason
    message: str
    evidence: tuple[tuple[str, str | int], ...] = ()
    binding: BindingLimit | None = field(default=None, compare=False)
    """The limit that is in the way, if it is one."""
    or_space: bool = False
    """True if a place that becomes free elsewhere would help as well, although the reason is not a lack of space."""

    @property
    def waits_for_space(self) -> bool:
        return self.or_space or self.reason in WAITING_FOR_SPACE

    def verdict(self, job: JobKey) -> Verdict:
        return Verdict(job=job, reason=self.reason, message=self.message, evidence=self.evidence)


@dataclass(frozen=True, slots=True)
class BookedGpus:
    """What a decision found of one booking."""

    kept: tuple[tuple[str, str], ...]
    """(node, UUID) of the GPUs that are kept for it, in order: free, or held by jobs that will be gone in time."""
    used: int
    """Milli-GPU of it that its queue holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    actions: tuple[Action, ...] = ()
    verdicts: Mapping[JobKey, Verdict] = field(default_factory=dict)
    """Exactly one for every job that is pending and not admitted by this plan."""
    nominations: Mapping[JobKey, Placement] = field(default_factory=dict)
    """Waiting jobs whose place is becoming free. `ClusterState.assume` keeps them for the next snapshot, so that no
    other job is given what was evicted for them."""
    booked: Mapping[str, BookedGpus] = field(default_factory=dict)
    """By the booking's name. `ClusterState.assume` keeps them, so that the same GPUs are kept in the next cycle."""
