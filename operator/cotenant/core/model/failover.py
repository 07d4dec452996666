"""What a new leader cannot see in jobs, nodes and queues as they stand, and is told by those who had it written down.

The controller reads it from the statuses of Queues and TrainingJobs when it takes over; `ClusterState.take_over` goes
on from there. Everything else is derived from what is observed. Reservations of backfill are made anew in every cycle,
so they are not among it.
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
    """What it decayed with until then. None: the operator's setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverState:
    borrowing: tuple[BorrowingRecord, ...] = ()
    ended: tuple[tuple[Job, float], ...] = ()
    """Jobs that are over, and since when: jobs like them may come again."""
    nominated: tuple[JobKey, ...] = ()
    """Waiting jobs for which room was being made. Where, is found again before anybody else has a turn."""
