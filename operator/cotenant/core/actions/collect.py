"""A reservation for the job that has waited longest, so that no stream of other jobs starves it.

A place for a gang rarely appears by itself, because a smaller job takes each GPU that becomes free. So in each class of
GPUs the job that has waited longest, once that is `Policy.collect_after_s`, has the first turn in a cycle, before
priority and shares. If it finds no place, the place where it starts first is reserved until it starts. Quota is
reserved with the GPUs. If only quota beyond a guarantee is missing, quota alone is reserved, so that no GPU stands idle
for a queue that is at its limit. Nothing is reserved for a job that has to borrow and does not fit beside what other
queues hold inside their guarantees (`Tenures.has_room`).

The bound. A reserved job starts by the time at which the last job in its way has ended (`tenure`). If the end of one of
them is unknown there is no bound.

No place is reserved behind a job without a known end that has run for longer than `_LONG` times the patience and than
1 / `_PART` of the wait: the longer a job has run, the longer it is likely to run on, and reserved GPUs would stand idle
meanwhile. Until then such jobs are waited for, the oldest first. That order never changes, so the place does not move
from cycle to cycle. If every job ends within some time t, a place is reserved for the first job in line at the latest
when it has waited for `_PART` × t.

Backfill. Other jobs may use the place until its holders are likely to have ended, if their `maxRuntime` is over by
then. A holder is likely to end when its `expectedRuntime` is over, else after as long again as it has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np

from cotenant.core.actions.backfill import Reservation
from cotenant.core.actions.tenure import Tenures, waits_since
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.gallop import first_true
from cotenant.core.cycle.holders import HolderTable
from cotenant.core.explain.forecast import Forecast, Start
from cotenant.core.gpus.inventory import FloatArray, IntArray
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Refusal, StartBound

_LONG: Final = 2
"""Times the patience: a job without a known end is waited for until it has run for so long, whatever the wait."""
_PART: Final = 4
"""A job without a known end is waited for until it has run for one of so many parts of the wait."""
_FEW: Final = 1_024
"""Endings that are looked at before all others."""
_LEAST_S: Final = 600
"""A job without a declared run time is likely to run on at least so long. Its likely end is looked at again after so
long: after a minute, every cycle of a cluster in which nothing happens would be decided anew."""
_STEP_S: Final = 60
"""A job that runs past its assumed end is assumed to stay for at least so many seconds more; longer, if that end is
long ago."""


@dataclass(frozen=True, slots=True, eq=False)
class Holders:
    """Jobs that hold GPUs, or will when others have left, as a job for which GPUs are reserved sees them; by key."""

    table: HolderTable
    rows: IntArray
    """Rows of the table that count; the other jobs leave anyway."""
    begun: FloatArray
    """[J] for all rows of the table, like `ends`."""
    ends: FloatArray
    """Infinity: unknown."""

    @property
    def ending(self) -> IntArray:
        """Rows that count and have an end."""
        return self.rows[self.ends[self.rows] < inf]


def holders_of(
    request: Request,
    tenures: Tenures,
    table: HolderTable,
    rows: IntArray,
    starting: Sequence[tuple[Job, Allocation]] = (),
) -> Holders:
    """Jobs in these rows and `starting`: jobs that start now, or when others have left."""
    if starting:
        table = table.with_starting(rows, starting)
        rows = np.arange(len(table.keys))
    moment = tenures.moment
    if np.isnan(table.begun).any():
        moment.pin()
    begun = np.where(np.isnan(table.begun), moment.at, table.begun)
    ends = begun + tenures.holds_s(request, table)
    over = rows[moment.have_come(ends[rows])]
    ends[over] = moment.rounded_up_by_age(ends[over], _STEP_S)
    return Holders(table, rows, np.minimum(begun, moment.at), ends)


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """A place that is kept until its job starts."""

    reservation: Reservation
    bound: StartBound
    """When the job has started at the latest."""
    of_quota: bool = False
    """Quota alone is kept; GPUs follow when there is enough."""

    def explain(self, refusal: Refusal) -> Refusal:
        """The reason to wait, with what is done about it."""
        what = "quota is" if self.of_quota else "GPUs are"
        message = f"{refusal.message} It has waited longest, so {what} reserved for it."
        return replace(refusal, message=message)


def collect(
    occupancy: Occupancy, job: Job, request: Request, holders: Holders, tenures: Tenures, *, of_quota: bool
) -> Collection | None:
    """The place where the job starts first, by known ends if those suffice, else if jobs that have not run for long end
    too. None if their ends make no room for it.

    `occupancy`: after the evictions that are under way; it is left as it was. `of_quota`: quota alone is kept.
    """
    table, waited_for, at = holders.table, holders, tenures.moment.at
    start = _first_start(occupancy, request, waited_for, at)
    starts_by = inf if start is None else start.at
    if start is None:
        waited_for = _with_short_runs(holders, waits_since(job), tenures)
        start = _first_start(occupancy, request, waited_for, at)
        if start is None:
            return None
    place = start.result.allocation
    counted = np.zeros(len(table.keys), dtype=np.bool_)
    counted[waited_for.ending] = True
    on_it = [row for row in table.batch.on_rows({node.row for node in place.nodes}) if counted[row]]
    leaving = sorted((_likely_end(holders, row, tenures), row) for row in on_it)
    free_at = _likely_free(occupancy, request, place, [(end, table.allocations[row]) for end, row in leaving])
    if free_at is None:
        free_at = start.at  # quota is missing as well
    kept = Allocation((), place.charge) if of_quota else place
    endless = [table.keys[row] for row in on_it if holders.ends[row] == inf] if starts_by == inf else []
    reservation = Reservation(job.key, min(free_at, starts_by), kept, is_collected=True)
    return Collection(reservation, StartBound(starts_by, basis_without(endless)), of_quota)


def basis_without(endless: Sequence[JobKey]) -> str:
    """What would give a bound, if these jobs hold some of the place and have no known end."""
    if not endless:
        return ""
    names = ", ".join(endless[:3]) + (" and others" if len(endless) > 3 else "")
    return f"There is no latest start, because the end of {names} is not known. A maxRuntime there would give one."


def _with_short_runs(holders: Holders, since: float, tenures: Tenures) -> Holders:
    """The same with an end for each job that has not run for long: when it will have. The others keep none."""
    begun, ends = holders.begun, holders.ends.copy()
    endless = holders.rows[ends[holders.rows] == inf]
    # It has run for 1 / _PART of the wait after 1 / (_PART - 1) of the wait at its start.
    long_s = np.maximum(_LONG * tenures.patience_s, (begun[endless] - since) / (_PART - 1))
    long_at = begun[endless] + long_s
    ends[endless] = np.where(tenures.moment.have_come(long_at), inf, long_at)
    return replace(holders, ends=ends)


def _first_start(occupancy: Occupancy, request: Request, holders: Holders, now: float) -> Start | None:
    """When and where the request starts if the holders end at `ends`, soonest first; ties by key. Holders without an
    end stay.

    The first `_FEW` endings are tried before the others.
    """
    table, rows, ends = holders.table, holders.ending, holders.ends
    order = rows[np.argsort(ends[rows], kind="stable")]
    start = None
    with occupancy.trial():
        for some in (order[:_FEW], order[_FEW:]):
            if start is None and len(some):
                batch = table.batch.take(some)
                start = Forecast(occupancy, ends[some].tolist(), batch, now).start_of(request)
                if start is None:
                    occupancy.release_batch(batch, 0, len(batch))
    return start


def _likely_free(
    occupancy: Occupancy,
    request: Request,
    place: Allocation,
    leaving: Sequence[tuple[float, Allocation]],
) -> float | None:
    """When the place is likely to be free; None if it is not when all jobs there have left.

    `leaving`: (likely end, what it gives back) of each job there, in order.
    """
    whole = not request.job.gpu.is_share

    def is_free(count: int) -> bool:
        with occupancy.trial():
            for _, allocation in leaving[:count]:
                occupancy.release(allocation)
            return occupancy.fits(place, whole=whole)

    if not leaving or not is_free(len(leaving)):
        return None
    return leaving[first_true(0, len(leaving), is_free) - 1][0]


def _likely_end(holders: Holders, row: int, tenures: Tenures) -> float:
    """The declared end, else after as long again as it has run; never after its known end."""
    job, moment = holders.table.jobs[row], tenures.moment
    begun, ends = float(holders.begun[row]), float(holders.ends[row])
    if job.expected_runtime_s is not None and not moment.has_come(begun + job.expected_runtime_s):
        return min(ends, begun + job.expected_runtime_s)
    now = float(moment.rounded_up_by_age(np.array([begun]), _LEAST_S)[0])
    return min(ends, now + max(_LEAST_S, now - begun))
