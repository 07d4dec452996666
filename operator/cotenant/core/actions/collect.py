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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

from cotenant.core.actions.backfill import Reservation
from cotenant.core.actions.tenure import LEARNED_PERCENT, Tenures
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.gallop import first_true
from cotenant.core.explain.forecast import Ending, Forecast
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Refusal
from cotenant.core.runtimes.learned import LearnedRuntimes

_UNKNOWN: Final = 4
"""Times the patience: what a job that is counted without end is taken to run all the same, again and again."""
STEP_S: Final = 60
"""Time goes on in such steps for whoever outlives what is counted, or is looked at by how long it has run: a decision
that collects is the same in between.
"""
_LEAST_S: Final = 600
"""What a job of which nothing is known is likely to run on at least."""


class Holder(NamedTuple):
    """A job that holds GPUs, or will when others have left."""

    job: Job
    allocation: Allocation
    begun: float
    ends: float
    """As counted; infinity: without end."""


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


def holder(tenures: Tenures, request: Request, job: Job, allocation: Allocation) -> Holder:
    """A job that runs, or starts now."""
    moment, ends = tenures.moment, tenures.counted_until(request, job)
    begun = moment.now if job.admitted_at is None else min(job.admitted_at, moment.unnoted)
    return Holder(job, allocation, begun, moment.rounded_up(STEP_S) if moment.has_come(ends) else ends)


def collect(
    occupancy: Occupancy, request: Request, holders: Sequence[Holder], tenures: Tenures, *, of_quota: bool
) -> Collection | None:
    """The place at which the request starts first as holders are counted, or else likely to; None where no ending makes
    one.

    `occupancy`: after the evictions that are under way; it is left as it was. `of_quota`: quota alone is kept.
    """
    now = tenures.moment.rounded_up(STEP_S)
    known = [_ending(one, one.ends) for one in holders if one.ends < inf]
    moment = tenures.moment.unnoted  # all endings are later
    start = Forecast(occupancy, _in_order(known), moment).start_of(request)
    starts_by = None if start is None else start.at
    endless: Sequence[Holder] = ()
    if start is None:
        endless = [one for one in holders if one.ends == inf]
        assumed_s = _UNKNOWN * tenures.patience_s
        taken = known + [_ending(one, _assumed_end(one, now, assumed_s)) for one in endless]
        start = Forecast(occupancy, _in_order(taken), moment).start_of(request)
        if start is None:
            return None
    place = start.result.allocation
    rows = {node.row for node in place.nodes}
    on_it = [one for one in holders if rows & {node.row for node in one.allocation.nodes}]
    leaving = [(_likely_end(tenures.runtimes, one, now), one) for one in on_it]
    free_at = _likely_free(occupancy, request, place, leaving, start.at)
    kept = Allocation((), place.charge) if of_quota else place
    return Collection(
        Reservation(request.job.key, free_at, kept, is_collected=True),
        starts_by,
        tuple(one.job.key for one in endless if rows & {node.row for node in one.allocation.nodes}),
        all(tenures.is_certain(request, one.job) for one in (holders if of_quota else on_it)),
        of_quota,
    )


def _likely_free(
    occupancy: Occupancy, request: Request, place: Allocation, leaving: list[tuple[float, Holder]], latest: float
) -> float:
    """When the place is likely to be free, and at the latest when it is counted to be. `leaving`: who holds GPUs there,
    and when each is likely to have ended."""
    whole = not request.job.gpu.is_share
    ordered = sorted(leaving, key=lambda one: (one[0], one[1].job.key))

    def is_free(count: int) -> bool:
        with occupancy.trial():
            for _, one in ordered[:count]:
                occupancy.release(one.allocation)
            return occupancy.fits(place, whole=whole)

    if not ordered or not is_free(len(ordered)):
        return latest  # quota lacks as well
    return min(latest, ordered[first_true(0, len(ordered), is_free) - 1][0])


def _likely_end(runtimes: LearnedRuntimes, one: Holder, now: float) -> float:
    """As declared, as learned, or as long again as it has run; not after its end as counted."""
    job, ran_s = one.job, now - one.begun
    if job.expected_runtime_s is not None and job.expected_runtime_s > ran_s:
        return min(one.ends, one.begun + job.expected_runtime_s)
    learned = runtimes.runtime_s(job, LEARNED_PERCENT, longer_than_s=int(ran_s))
    return min(one.ends, now + max(_LEAST_S, ran_s) if learned is None else one.begun + learned)


def _assumed_end(one: Holder, now: float, assumed_s: float) -> float:
    """The first multiple of the assumed time after its start that is still to come."""
    return one.begun + assumed_s * ((now - one.begun) // assumed_s + 1)


def _ending(one: Holder, at: float) -> Ending:
    return at, one.job.key, one.allocation


def _in_order(endings: list[Ending]) -> list[Ending]:
    return sorted(endings, key=lambda ending: ending[:2])
