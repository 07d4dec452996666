"""What earlier runs say about a job: run times of the narrowest group of similar jobs that has enough of them.

Only runs that lasted longer than the job has run already count. Run times of training jobs are heavy-tailed, so the
answer changes much while a job runs; a single number from its start would be worth little.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median_low
from types import MappingProxyType
from typing import TypeAlias

from cotenant.core.model.objects import Job
from cotenant.core.runtimes.templates import groups_of

ENOUGH = 5
"""A group is used only if it has so many runs that lasted longer than the job has run."""

PER_MILLE = 1_000

RunSeconds: TypeAlias = tuple[int, ...]
"""Seconds that runs took, ascending."""


@dataclass(frozen=True, slots=True)
class LearnedRuntimes:
    """Read-only. Group → run times."""

    groups: Mapping[str, RunSeconds] = field(default_factory=lambda: MappingProxyType({}))

    def runs_like(self, job: Job, *, longer_than_s: int = 0) -> RunSeconds:
        """Run times of jobs like this one that exceeded so many seconds, ascending; empty where too few are known."""
        for group in groups_of(job):
            known = self.groups.get(group, ())
            longer = known[bisect_right(known, longer_than_s) :]
            if len(longer) >= ENOUGH:
                return longer
        return ()

    def median_s(self, job: Job, *, longer_than_s: int = 0) -> int | None:
        """Seconds that the job will have run at its end, in the median; None where too little is known.

        Example: half of runs of 60, 70, 80, 3,000 and 4,000 s end within 80 s; of those that have run for 100 s (were
        there enough) half end within 3,000 s.
        """
        runs = self.runs_like(job, longer_than_s=longer_than_s)
        return median_low(runs) if runs else None


NOTHING_LEARNED = LearnedRuntimes()
