"""Facts about the cluster, each one whole, in any order and any number of times.

Built from watch events or from a trace. A fact replaces what was known of that thing;
there are no deltas, so a repeated or resynced fact changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cotenant.core.model.objects import Job, JobKey, Node, TenantQueue
from cotenant.core.quota.bookings import BookingTerms


@dataclass(frozen=True, slots=True)
class NodeObserved:
    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class QueueObserved:
    queue: TenantQueue


@dataclass(frozen=True, slots=True)
class QueueGone:
    name: str


@dataclass(frozen=True, slots=True)
class JobObserved:
    """A job that waits or that holds a placement. A job that ended, is suspended or is invalid is `JobGone`."""

    job: Job
    version: int = 0
    """The document's version, where there is one: a fact older than our own last write does not undo it."""


@dataclass(frozen=True, slots=True)
class JobGone:
    """Ended, deleted, suspended or invalid: it gives back everything in the same step."""

    key: JobKey
    ran_s: int | None = None
    """How long its workers ran, over all attempts, where it came to its end. None: it did not, or that is not known."""


@dataclass(frozen=True, slots=True)
class BookingObserved:
    booking: BookingTerms


@dataclass(frozen=True, slots=True)
class BookingGone:
    name: str


ClusterFact: TypeAlias = (
    NodeObserved | NodeGone | QueueObserved | QueueGone | JobObserved | JobGone | BookingObserved | BookingGone
)
