"""Finds by bisection the jobs with which no decision can be made. The next cycle goes on without them. Pure.

A job outside of the tested group is left out if it waits, and only counts as held GPUs if it runs. The number of trials
is bounded. Jobs that could not be told apart by then are blamed together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cotenant.controller.cluster.core_jobs import set_aside
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.snapshot.snapshot import Snapshot

TRIALS_MAX: Final = 64
"""One bad job of a thousand takes about twenty trials."""


@dataclass(slots=True)
class CulpritSearch:
    decide: Callable[[Snapshot], object]
    snapshot: Snapshot
    """Without its accounting."""
    trials: int = 0

    def culprits(self, candidates: Sequence[JobKey]) -> dict[JobKey, Exception]:
        """The jobs to blame, each with its error: without them a decision can be made.

        Empty if no job is to blame: the decision fails without all of them, or does not fail with all of them.
        """
        if self._failure(frozenset()) is not None:
            return {}
        error = self._failure(frozenset(candidates))
        return {} if error is None else self._bisect(sorted(candidates), error)

    def _bisect(self, group: Sequence[JobKey], error: Exception) -> dict[JobKey, Exception]:
        """The jobs to blame in a group that fails."""
        if len(group) == 1 or self.trials >= TRIALS_MAX:
            return dict.fromkeys(group, error)
        middle = len(group) // 2
        found: dict[JobKey, Exception] = {}
        for half in (group[:middle], group[middle:]):
            if (failure := self._failure(frozenset(half))) is not None:
                found |= self._bisect(half, failure)
        return found or self._last_straw(group, middle, error)

    def _last_straw(self, group: Sequence[JobKey], low: int, error: Exception) -> dict[JobKey, Exception]:
        """The first job with which a group fails, if the group fails only together and its first `low` jobs do not
        fail.
        """
        high = len(group)
        while high - low > 1 and self.trials < TRIALS_MAX:
            middle = (low + high) // 2
            failure = self._failure(frozenset(group[:middle]))
            low, high = (middle, high) if failure is None else (low, middle)
        return dict.fromkeys(group[low:high], error)

    def _failure(self, under_test: frozenset[JobKey]) -> Exception | None:
        self.trials += 1
        jobs = (job if job.key in under_test else _without_wishes(job) for job in self.snapshot.jobs)
        try:
            self.decide(replace(self.snapshot, jobs=tuple(job for job in jobs if job)))
        except Exception as error:
            return error
        return None


def _without_wishes(job: Job) -> Job | None:
    return None if job.placement is None else set_aside(job)
