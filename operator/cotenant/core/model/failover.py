"""State that a new leader cannot derive from jobs, nodes and queues as they stand, and restores from what was written.

It stands in the statuses of Queues and TrainingJobs; `ClusterState.restore` continues from it. Everything else is
derived from what is observed. Reservations of backfill are made anew in every cycle, so they are not part of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.core.model.objects import Job, JobKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowingRecord:
    """Decayed past borrowing of one queue at the moment `at`, and what it has borrowed since then (`rate_milli`)."""

    queue: str
    milli_seconds: int
    """Milli-GPU-seconds."""
    rate_milli: int
    at: float
    half_life_s: int | None = None
    """Half-life of the decay until `at`. None: the operator's setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverState:
    borrowing: tuple[BorrowingRecord, ...] = ()
    ended: tuple[tuple[Job, float], ...] = ()
    """(job that is over, since when): jobs like it may come again."""
    nominated: tuple[JobKey, ...] = ()
    """Waiting jobs for which a place was becoming free. It is searched again before any other job has its turn."""
    evicted: tuple[JobKey, ...] = ()
    """Jobs that were evicted for another after the last arrival and the last ending that are known."""
