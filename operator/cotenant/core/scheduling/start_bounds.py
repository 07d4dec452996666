"""The latest start of each waiting job (`startsBy`), whatever other jobs come. See docs/design/0006-scheduling-core.md.

Overdue jobs that are entitled to what they ask for (`Tenures.is_entitled`) are served in the order of their wait. With
the patience p, and h the longest time for which a job of the class may hold GPUs, the jobs of one class are bounded by
    b₁ = the end of the reservation's last holder, if GPUs are reserved for it, else s₁ + p + h
    bₙ = max(bₙ₋₁, sₙ + p) + h                        where sₙ is when the job began to wait
If nobody is evicted for a job before some later time (`Job.evicts_from`), that time takes the place of sₙ + p.
h is the tenure limit if one is set, else the longest `maxRuntime` of all jobs that run or wait there. A job without an
end gives no h, and so no bound. A job that comes later and may run longer than h moves the bounds. A job that has to
borrow has no latest start if another queue has a guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, TypeAlias

from cotenant.core.actions.tenure import Tenures, waiting_order
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry
from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import StartBound
from cotenant.core.scheduling.admission import Admission

UNKNOWN: Final = (
    "There is no latest start, because a job that runs or waits on such GPUs has no maxRuntime. A maxRuntime for all of"
    " them, or a tenure limit of the cluster, would give one."
)
_BEHIND_BOOKINGS: Final = StartBound(
    basis="There is no latest start, because GPUs of its class are booked for other queues."
)
_Longest: TypeAlias = list[tuple[float, JobKey]]
"""(seconds, job) of the two jobs that may hold GPUs of a class longest. An empty key: any job may hold them so long."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An entitled job that waits."""

    job: Job
    classes: tuple[str, ...]
    """Of GPUs on which it may run."""
    longest_s: float
    """h; infinity if a job of these classes has no end."""
    reserved: StartBound | None = None
    """By the place that is reserved for it, if one is."""


def start_bounds(
    cycle: Cycle, admission: Admission, waiting: Sequence[tuple[Entry, Request]]
) -> dict[JobKey, StartBound]:
    """The latest start of every entry, or why there is none.

    `waiting`: entries that had a turn and wait. Call it when only places of overdue jobs are still reserved.
    """
    tenures = admission.tenures
    if not tenures.patience_s or not waiting:
        return {}
    holds = _longest_holds(cycle, admission)
    found: dict[JobKey, StartBound] = {}
    entitled: list[Waiting] = []
    for entry, request in waiting:
        if tenures.is_entitled(request):
            longest_s = max((_of_others(holds[name], entry.job.key) for name in request.classes), default=inf)
            collection = admission.collections.get(entry.job.key)
            reserved = None if collection is None else collection.bound
            entitled.append(Waiting(entry.job, request.classes, longest_s, reserved))
        else:
            found[entry.job.key] = StartBound(basis=_has_to_borrow(request))
    found |= bounds_in_turn(entitled, tenures)
    for entry, request in waiting:
        if admission.booked.is_behind(request):
            found[entry.job.key] = _BEHIND_BOOKINGS
    return found


def bounds_in_turn(waiting: Iterable[Waiting], tenures: Tenures) -> dict[JobKey, StartBound]:
    """Waiting job → its bound, one after the other in the order of waits."""
    last: dict[str, float] = {}
    """Class → the bound of the last job so far."""
    found: dict[JobKey, StartBound] = {}
    for one in sorted(waiting, key=lambda one: waiting_order(one.job)):
        before = max((last[name] for name in one.classes if name in last), default=-inf)
        if before == -inf and tenures.is_overdue(one.job):
            bound = one.reserved or StartBound(basis=UNKNOWN)
        else:
            at = max(before, tenures.overdue_since(one.job)) + one.longest_s
            bound = StartBound(at, UNKNOWN if at == inf else "")
        last.update(dict.fromkeys(one.classes, bound.at))
        found[one.job.key] = bound
    return found


def _has_to_borrow(request: Request) -> str:
    gpus = format_gpus(request.least_milli)
    return (
        f"There is no latest start, because the job has to borrow: it asks for {gpus} GPU, which the guarantee of its"
        f" queue does not cover, and other queues may claim theirs. A guarantee of {gpus} GPU would give one."
    )


def _longest_holds(cycle: Cycle, admission: Admission) -> dict[str, _Longest]:
    """Class of GPUs → the two jobs that may hold them longest, of all jobs that run or wait there."""
    tenures = admission.tenures
    least = (float(tenures.protected_s) if tenures.longest_s == inf else tenures.longest_s), ""
    found: dict[str, _Longest] = {}
    for classes, job in _users(cycle):
        seconds = tenures.longest_hold_s(job)
        for gpu_class in classes:
            longest = found.setdefault(gpu_class, [least, least])
            if seconds > longest[1][0] and job.key not in (longest[0][1], longest[1][1]):
                longest[:] = sorted((*longest, (seconds, job.key)), reverse=True)[:2]
    return found


def _of_others(longest: _Longest, key: JobKey) -> float:
    """The longest time of any other job. A job without an end is not in its own way."""
    return longest[1][0] if longest[0] == (inf, key) else longest[0][0]


def _users(cycle: Cycle) -> Iterator[tuple[tuple[str, ...], Job]]:
    """(classes of GPUs, job): all jobs that wait for the classes, and of those that run the ones that may hold them
    longest."""
    yield from (((gpu_class,), cycle.running.by_key[key]) for gpu_class, key in cycle.running.longest)
    for entry in cycle.entries:
        if entry.request is not None:
            yield entry.request.classes, entry.job
