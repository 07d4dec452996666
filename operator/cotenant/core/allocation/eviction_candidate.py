"""Candidates for eviction, as values: a whole job or surplus workers, and their ordered list for one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import EvictionKind


@dataclass(frozen=True, slots=True, eq=False)
class EvictionCandidate:
    """A whole job, without its surplus workers, or surplus workers of an elastic job that leave together."""

    job: Job
    allocation: Allocation
    kind: EvictionKind
    lost_work: int
    """Milli-GPU-seconds."""
    ranks: range | None = None
    """Of the surplus workers; None for the whole job."""
    level: int = 0
    """Level of attained service, if it yields to a job of its own queue and priority; 0: it leaves by another rule."""

    @property
    def is_job(self) -> bool:
        return self.ranks is None

    @property
    def order(self) -> tuple[bool, int, int, bool, int, float, str, int]:
        """Least lost work first, then borrowers before the own queue, lower priority, the newest. Jobs that yield by
        attained service come last, the highest level first."""
        own_queue = self.kind is EvictionKind.PREEMPTED
        newest = -(self.job.admitted_at or 0.0)
        last = self.ranks[-1] if self.ranks else 0
        by_service = self.level > 0
        return by_service, -self.level, self.lost_work, own_queue, self.job.priority, newest, self.job.key, -last


@dataclass(frozen=True, slots=True, eq=False)
class CandidateList:
    """Candidates for requests of one kind, in order. Some may have been asked to leave since the list was made."""

    surplus: Sequence[EvictionCandidate]
    jobs: Sequence[EvictionCandidate]
    """Minimum parts of jobs; one that leaves takes its job's surplus with it."""
