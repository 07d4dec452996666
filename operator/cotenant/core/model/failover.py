"""State that a new leader cannot derive from jobs, nodes and queues as they stand, and restores from what was written.

It stands in the statuses of Queues and TrainingJobs; `ClusterState.restore` continues from it. Everything else is
derived from what is observed. Reservations of backfill are made anew in every cycle, so they are not part of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.core.model.objects import Job, JobKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowingRecord:
    """Decayed borrowing of one queue, as it stood at one moment; since then it has held `rate_milli` beyond its own."""

    queue: str
    milli_seconds: int
    """Milli-GPU-seconds."""
    rate_milli: int
    at: float
    half_life_s: int | None = None
    """Of the decay until then. None: the operator's setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverState:
    borrowing: tuple[BorrowingRecord, ...] = ()
    ended: tuple[tuple[Job, float], ...] = ()
    """(job that is over, since when): jobs like it may come again."""
    nominated: tuple[JobKey, ...] = ()
    """Waiting jobs for which a place was becoming free. It is searched again before any other job has its turn."""
    evicted: tuple[JobKey, ...] = ()
    """Jobs that were evicted for another after the last arrival and the last ending that are known."""
