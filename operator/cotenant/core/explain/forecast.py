"""Estimated start of a waiting job, through the same trial as the decision.

Running jobs are released in the order in which they end (start + expected runtime, or maximum runtime), jobs ahead in
the order keep the places that they will get, and the first moment at which the whole gang fits is the estimate. Jobs
without a declared runtime are taken to run without end, so an estimate is late rather than early, or absent.
Bounded: `Policy.forecasts` kinds of request per cycle and the next `_HORIZON` endings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from cotenant.core.allocation.allocation import Allocation, AllocationBatch
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.gallop import gallop
from cotenant.core.cycle.outcome import CycleOutcome
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.cycle.search import PlacementResult, find, fits
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey

_HORIZON = 512

Ending: TypeAlias = tuple[float, JobKey, Allocation]
"""(when, job, what it gives back)."""


@dataclass(frozen=True, slots=True, eq=False)
class EndingList:
    """Endings, soonest first."""

    at: Sequence[float]
    batch: AllocationBatch
    """What each gives back."""

    @classmethod
    def of(cls, endings: Sequence[Ending]) -> EndingList:
        return cls([at for at, _, _ in endings], AllocationBatch([allocation for _, _, allocation in endings]))


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Expected moment and place of a start."""

    at: float
    endings: int
    """Jobs that have ended by then."""
    result: PlacementResult


class Forecast:
    """Starts of waiting jobs over the endings that are known; each request counts on those that came before it."""

    __slots__ = ("_ahead", "_endings", "_now", "_occupancy")

    def __init__(self, occupancy: Occupancy, endings: EndingList, now: float) -> None:
        """`occupancy`: after the evictions that are under way; it is left as it was."""
        self._occupancy = occupancy
        self._endings = endings
        self._now = now
        self._ahead: list[Start] = []

    def start_of(self, request: Request) -> Start | None:
        """The first moment at which the whole gang fits. Its place is taken for the requests that follow."""
        most, after = len(self._endings.at), _After(self._occupancy, self._endings.batch, self._ahead)
        with self._occupancy.trial():
            count = gallop(lambda count: min(count, most), lambda count: fits(after.endings(count), request))
            result = None if count is None else find(after.endings(count), request, request.workers)
        if count is None or result is None:
            return None
        start = Start(max(self._now, self._endings.at[count - 1]), count, result)
        self._ahead.append(start)
        return start


class _After:
    """The occupancy after some endings, with the jobs ahead at their places. From one number of endings to the next
    only what lies between them moves."""

    __slots__ = ("_ahead", "_batch", "_count", "_occupancy")

    def __init__(self, occupancy: Occupancy, batch: AllocationBatch, ahead: Sequence[Start]) -> None:
        self._occupancy, self._batch, self._ahead = occupancy, batch, ahead
        self._count = 0

    def endings(self, count: int) -> Occupancy:
        before, self._count = self._count, count
        if before < count:
            self._occupancy.release_batch(self._batch, before, count)
        else:
            self._occupancy.allocate_batch(self._batch, count, before)
        for one in self._ahead:
            if before < one.endings <= count:
                self._occupancy.allocate(one.result.allocation)
            elif count < one.endings <= before:
                self._occupancy.release(one.result.allocation)
        return self._occupancy


def endings_of(
    running: RunningJobs, outcome: CycleOutcome, started: Iterable[tuple[Job, Allocation]], moment: Moment
) -> list[Ending]:
    """Known endings that are still to come, soonest first. `started`: jobs that this cycle admits."""
    known = (ending for ending in _Endings.among(running, moment) if not outcome.touches(ending[1]))
    found = list(islice(known, _HORIZON))
    for job, allocation in started:
        end = ends_at(job, moment.now, moment)
        if end is not None:
            found.append((end, job.key, allocation))
    return sorted(found, key=lambda ending: ending[:2])[:_HORIZON]


@dataclass(frozen=True, slots=True, eq=False)
class _Endings:
    """All that are known of running jobs, soonest first, as of one moment: the same until the first of them."""

    since: float
    all: Sequence[Ending]

    @classmethod
    def among(cls, running: RunningJobs, moment: Moment) -> Sequence[Ending]:
        known: _Endings | None = running.kept.get(cls)
        if known is None or known.since > moment.unnoted or (known.all and moment.has_come(known.all[0][0])):
            known = running.kept[cls] = cls(moment.unnoted, cls._sorted(running, moment))
        return known.all

    @staticmethod
    def _sorted(running: RunningJobs, moment: Moment) -> list[Ending]:
        found = [
            (end, job.key, running.allocations[job.key])
            for job in running.by_key.values()
            if not job.evicting
            and job.resizing_from is None
            and (end := ends_at(job, job.admitted_at, moment)) is not None
        ]
        return sorted(found, key=lambda ending: ending[:2])


def ends_at(job: Job, admitted_at: float | None, moment: Moment) -> float | None:
    """The expected end; the latest possible one when the job is already over its expectation."""
    if admitted_at is None:
        return None
    for seconds in (job.expected_runtime_s, job.max_runtime_s):
        if seconds is not None and not moment.has_come(admitted_at + seconds):
            return admitted_at + seconds
    return None
