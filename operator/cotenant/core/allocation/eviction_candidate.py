"""What can be asked to leave, as values: a whole job, or one surplus worker; and the list of them for one request.

`victims` draws the lists up and says who may be on them; `eviction` goes through them; a cycle keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import EvictionKind


@dataclass(frozen=True, slots=True, eq=False)
class EvictionCandidate:
    """One thing that can leave: a whole job, or one surplus worker of an elastic one."""

    job: Job
    allocation: Allocation
    kind: EvictionKind
    lost_work: int
    """Milli-GPU-seconds of work."""
    rank: int | None = None
    """Of the surplus worker; None for the whole job."""

    @property
    def order(self) -> tuple[int, bool, int, float, str, int]:
        """Least lost work, then borrowers before the own queue, lower priority, the newest."""
        own_queue = self.kind is EvictionKind.PREEMPTED
        newest = -(self.job.admitted_at or 0.0)
        return self.lost_work, own_queue, self.job.priority, newest, self.job.key, -(self.rank or 0)


@dataclass(frozen=True, slots=True, eq=False)
class CandidateList:
    """Who may leave for requests of one kind, in order. May name some that were asked in the meantime."""

    surplus: Sequence[EvictionCandidate]
    whole: Sequence[EvictionCandidate]
    """Minimum parts of jobs; one that leaves takes its job's surplus with it."""
    asked: int
    """How many had been asked to leave when this was drawn up."""

    def stale(self, asked: int) -> bool:
        return (asked - self.asked) * 16 > len(self.surplus) + len(self.whole)
