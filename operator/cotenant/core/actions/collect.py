"""GPUs collected for a job that has waited too long, so that no stream of other jobs starves it.

Space for a gang rarely appears by itself: whatever becomes free is at once enough for somebody smaller. So the job that
has waited longest in a class of GPUs, once that is `Policy.collect_after_s`, has the first turn in a cycle, before
priority and shares; and where it finds no place, the place is kept at which it starts first as running jobs are counted
(`tenure`), until it does. Quota is kept with the GPUs; where quota is what lacks beyond a guarantee, it alone, so that
no GPU stands idle for a queue that is at its limit.

The bound. Let T be the first moment at which the gang fits when every running job holds what it holds until its end as
counted. T does not move back from cycle to cycle: whoever starts on the kept place ends by then, who starts elsewhere
leaves it as it was, and an earlier end makes T no later; so at T the kept place fits. The job starts by T in any stream
of other jobs (`start_bounds` has the bound before its turn has come). T is lost, and computed anew, where a job that
was counted by what was learned runs for longer, where nodes fail or guarantees change. Starting and ending take their
seconds besides.

Backfill. The place is kept until its present holders are likely to have ended, which is mostly long before T: by what
they declare, by the 90th percentile of runs like theirs, else as long again as they have run. A job whose `maxRuntime`
is over by then goes first there; who only hopes to end by then does not.

Where T needs the end of a job that is counted without end, there is no bound, and the tenant is told whose end is
missing. GPUs are collected all the same, as if such jobs ran for `_UNKNOWN` times the patience: with one number for
all, the order of their ends stays what it is, so the place does not wander either, and the gang starts by that time
wherever they do end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np

from cotenant.core.actions.backfill import Reservation
from cotenant.core.actions.counted_ends import STEP_S, Holders
from cotenant.core.actions.holders import HolderTable
from cotenant.core.actions.tenure import LEARNED_PERCENT, Tenures
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.gallop import first_true
from cotenant.core.explain.forecast import EndingList, Forecast, Start
from cotenant.core.gpus.inventory import FloatArray, IntArray
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Refusal
from cotenant.core.runtimes.learned import quantile

_UNKNOWN: Final = 4
"""Times the patience: what a job that is counted without end is taken to run all the same, again and again."""
_LOOKS: Final = 6
"""Times within the patience that it is looked whether that is over."""
_FEW: Final = 1_024
"""Endings."""
_LEAST_S: Final = 600
"""What a job of which nothing is known is likely to run on at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """A place that is kept until its job starts."""

    reservation: Reservation
    starts_by: float | None
    """The bound; None: there is none."""
    unbounded: tuple[JobKey, ...] = ()
    """Jobs that hold some of it and are counted without end."""
    is_certain: bool = True
    """Ends as counted are enforced, and not only learned."""
    of_quota: bool = False
    """Quota alone is kept; GPUs follow when there is enough."""

    def explain(self, refusal: Refusal) -> Refusal:
        """The reason to wait, with what is done about it."""
        what = "quota is" if self.of_quota else "GPUs are"
        message = f"{refusal.message} It has waited very long, so {what} collected for it."
        return replace(refusal, estimated_start_at=self.reservation.starts_at, message=message)

    @property
    def basis(self) -> str:
        """What the bound counts on; where there is none, what would give one. Empty: the bound is certain."""
        if self.unbounded:
            names = ", ".join(self.unbounded[:3]) + (" and others" if len(self.unbounded) > 3 else "")
            return f"It is not known, because nothing ends {names}: a maxRuntime would."
        return "" if self.is_certain else COUNTS_ON_LEARNED


COUNTS_ON_LEARNED: Final = (
    "It counts jobs without a maxRuntime as nine out of ten earlier jobs of their queues ran; with one it is certain."
)


def collect(
    occupancy: Occupancy, request: Request, holders: Holders, tenures: Tenures, *, of_quota: bool
) -> Collection | None:
    """The place at which the request starts first as holders are counted, or else likely to; None where no ending makes
    one.

    `occupancy`: after the evictions that are under way; it is left as it was. `of_quota`: quota alone is kept.
    """
    table, rows, moment = holders.table, holders.rows, tenures.moment
    endless = rows[holders.ends[rows] == inf]
    known = rows[holders.ends[rows] < inf]
    start = _first_start(occupancy, request, (table, known, holders.ends), moment.unnoted)
    starts_by = None if start is None else start.at
    if start is None:
        taken = holders.ends.copy()
        taken[endless] = _assumed_ends(holders.begun[endless], tenures)
        start = _first_start(occupancy, request, (table, rows, taken), moment.unnoted)
        if start is None:
            return None
    place = start.result.allocation
    counted = np.zeros(len(table.keys), dtype=np.bool_)
    counted[rows] = True
    on_it = [row for row in table.batch.on_rows({node.row for node in place.nodes}) if counted[row]]
    leaving = [(_likely_end(holders, row, tenures), row) for row in on_it]
    free_at = _likely_free(occupancy, request, place, (table, leaving), start.at)
    kept = Allocation((), place.charge) if of_quota else place
    return Collection(
        Reservation(request.job.key, free_at, kept, is_collected=True),
        starts_by,
        tuple(table.keys[row] for row in on_it if holders.ends[row] == inf) if starts_by is None else (),
        bool(holders.certain[rows if of_quota else on_it].all()),
        of_quota,
    )


def _first_start(
    occupancy: Occupancy, request: Request, holders: tuple[HolderTable, IntArray, FloatArray], now: float
) -> Start | None:
    """Number of these rows that have to end, soonest first, and of one moment in order of key. Few are looked at as
    long as they are enough; else the others, after all of these."""
    table, rows, ends = holders
    order = rows[np.argsort(ends[rows], kind="stable")]
    start = None
    with occupancy.trial():
        for some in (order[:_FEW], order[_FEW:]):
            if start is None and len(some):
                batch = table.batch.take(some)
                start = Forecast(occupancy, EndingList(ends[some].tolist(), batch), now).start_of(request)
                if start is None:
                    occupancy.release_batch(batch, 0, len(batch))
    return start


def _likely_free(
    occupancy: Occupancy,
    request: Request,
    place: Allocation,
    leaving: tuple[HolderTable, list[tuple[float, int]]],
    latest: float,
) -> float:
    """Times at which the place is likely to be free, and is counted to be. `leaving`: when each is likely
    to have ended who holds GPUs there, and its row."""
    whole = not request.job.gpu.is_share
    table, ordered = leaving[0], sorted(leaving[1])

    def is_free(count: int) -> bool:
        with occupancy.trial():
            for _, row in ordered[:count]:
                occupancy.release(table.allocations[row])
            return occupancy.fits(place, whole=whole)

    if not ordered or not is_free(len(ordered)):
        return latest  # quota lacks as well
    return min(latest, ordered[first_true(0, len(ordered), is_free) - 1][0])


def _likely_end(holders: Holders, row: int, tenures: Tenures) -> float:
    """End as declared, as learned, or after as long again as it has run; not after its end as counted."""
    job, moment = holders.table.jobs[row], tenures.moment
    begun, ends = float(holders.begun[row]), float(holders.ends[row])
    if job.expected_runtime_s is not None and not moment.has_come(begun + job.expected_runtime_s):
        return min(ends, begun + job.expected_runtime_s)
    runs_s = tenures.runtimes.runs_like(job, longer_than_s=int(moment.unnoted - begun))
    if runs_s:
        moment.has_come(begun + runs_s[0])  # then fewer are longer
        return min(ends, begun + quantile(runs_s, LEARNED_PERCENT))
    now = float(moment.rounded_up_by_age(np.array([begun]), STEP_S)[0])
    return min(ends, now + max(_LEAST_S, now - begun))


def _assumed_ends(begun: FloatArray, tenures: Tenures) -> FloatArray:
    """Ends assumed: for each the first multiple of the assumed time after its start that is still to come."""
    assumed_s = _UNKNOWN * tenures.patience_s
    now = tenures.moment.rounded_up(max(STEP_S, tenures.patience_s // _LOOKS))
    ends: FloatArray = begun + assumed_s * ((now - begun) // assumed_s + 1)
    return ends
