"""When and where a waiting job starts if running jobs end as they declare, found in a trial like a decision.

Running jobs are released in the order of their declared ends (start + expected runtime, or maximum runtime). Jobs ahead
in the order keep the places that they will get. The first moment at which the whole gang fits is the start. A job
without a declared runtime is assumed to run forever. Decisions use this to reserve places and to weigh moves; what a
tenant is told comes from played futures (`outlook`). Bounded: the next `_HORIZON` endings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

import numpy as np

from cotenant.core.allocation.allocation import Allocation, AllocationBatch
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.gallop import gallop
from cotenant.core.cycle.holders import HolderTable
from cotenant.core.cycle.outcome import CycleOutcome
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.cycle.search import PlacementResult, find, fits
from cotenant.core.gpus.inventory import FloatArray
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey

_HORIZON = 512

Ending: TypeAlias = tuple[float, JobKey, Allocation]
"""(when, job, what it gives back)."""


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Expected moment and place of a start."""

    at: float
    endings: int
    """Jobs that have ended by then."""
    result: PlacementResult


class Forecast:
    """Starts of waiting jobs, by the endings that are known. Requests that were asked about before keep their
    places."""

    __slots__ = ("_ahead", "_batch", "_ends", "_now", "_occupancy")

    def __init__(self, occupancy: Occupancy, ends: Sequence[float], batch: AllocationBatch, now: float) -> None:
        """`occupancy`: after the evictions that are under way; it is left as it was. `ends`: soonest first; `batch`:
        what is given back at each of them."""
        self._occupancy, self._ends, self._batch, self._now = occupancy, ends, batch, now
        self._ahead: list[Start] = []

    def start_of(self, request: Request) -> Start | None:
        """The first moment at which the whole gang fits. Its place is taken for the requests that follow."""
        most, after = len(self._ends), _After(self._occupancy, self._batch, self._ahead)
        with self._occupancy.trial():
            count = gallop(lambda count: min(count, most), lambda count: fits(after.endings(count), request))
            result = None if count is None else find(after.endings(count), request, request.workers)
        if count is None or result is None:
            return None
        start = Start(max(self._now, self._ends[count - 1]), count, result)
        self._ahead.append(start)
        return start


class _After:
    """The occupancy after some endings, with the jobs ahead at their places. Going from one number of endings to
    another applies only the endings between them."""

    __slots__ = ("_ahead", "_batch", "_count", "_occupancy")

    def __init__(self, occupancy: Occupancy, batch: AllocationBatch, ahead: Sequence[Start]) -> None:
        self._occupancy, self._batch, self._ahead = occupancy, batch, ahead
        self._count = 0

    def endings(self, count: int) -> Occupancy:
        sign, low, high = (1, self._count, count) if self._count < count else (-1, count, self._count)
        self._occupancy.allocate_batch(self._batch, low, high, -sign)
        for one in self._ahead:
            if low < one.endings <= high:
                self._occupancy.allocate(one.result.allocation, sign)
        self._count = count
        return self._occupancy


def endings_of(
    running: RunningJobs, outcome: CycleOutcome, started: Iterable[tuple[Job, Allocation]], moment: Moment
) -> list[Ending]:
    """Known endings that are still to come, soonest first. `started`: jobs that this cycle admits."""
    table = running.holders
    rows, ends = table.staying((*outcome.evictions, *outcome.resizes)), _declared_ends(table, moment)
    soonest = rows[np.argsort(ends[rows], kind="stable")][:_HORIZON].tolist()
    found = [(float(ends[row]), table.keys[row], table.allocations[row]) for row in soonest if ends[row] < inf]
    for job, allocation in started:
        if seconds := job.expected_runtime_s or job.max_runtime_s:
            found.append((moment.read() + seconds, job.key, allocation))
    return sorted(found, key=lambda ending: ending[:2])[:_HORIZON]


def _declared_ends(table: HolderTable, moment: Moment) -> FloatArray:
    """[J] the expected end; the latest possible one if the job is already over its expectation; infinity: unknown."""
    begun = np.where(np.isnan(table.begun), inf, table.begun)
    first = begun + table.expected_s
    ends = np.where(moment.have_come(first) | np.isinf(first), begun + table.longest_s, first)
    ends[moment.have_come(ends)] = inf
    return ends
