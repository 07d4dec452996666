"""Turns of overdue jobs, which have waited too long, and the latest start of every waiting job.

Overdue jobs that are entitled to what they ask for go first, the longest wait before the others. An overdue job that
has to borrow goes before all other jobs that borrow. So it delays no job inside a guarantee, and it has no latest start
if another queue has a guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final, TypeAlias

from cotenant.core.actions.start_bounds import Waiting, start_bounds, waiting_order
from cotenant.core.actions.tenure import Tenures
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry, EntryOutcome
from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import NO_BOUND, StartBound
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.scheduling.admission import Admission

Turns: TypeAlias = Iterable[tuple[Entry, Request]]


def give_turns(
    cycle: Cycle,
    admission: Admission,
    overdue: Sequence[tuple[Entry, Request]],
    coming: Iterable[tuple[float, Request]],
    ordered: Turns,
) -> Iterator[None]:
    """Give every entry one turn, one at each step of the iterator.

    `overdue`: the longest wait first. `coming`: when each other entry becomes overdue. `ordered`: the usual order,
    which is chosen while turns are given.
    """
    tenures = admission.tenures
    entitled = [one for one in overdue if tenures.is_entitled(one[1])]
    borrowers = [one for one in overdue if not tenures.is_entitled(one[1])]
    for entry, request in entitled:
        admission.collect_for(entry, request)
        yield
    # Once it is settled that no place is reserved for a request, the decision no longer depends on when another job
    # with the same request becomes overdue.
    tenures.moment.has_come(min((at for at, request in coming if not admission.is_spoken_for(request)), default=inf))
    usage = cycle.accounts.current.usage
    admission.usage = usage.copy() if admission.collections else usage  # reserved places are given back later
    for entry, request in ordered:
        if borrowers and not within_guarantee(usage, request, request.queue):
            for other, wanted in borrowers:
                if other.outcome is EntryOutcome.UNDECIDED and admission.collect_for(other, wanted):
                    admission.gave = True  # and so turns after it look at other shares
            borrowers = []
        if entry.outcome is EntryOutcome.UNDECIDED:
            admission.try_admit(entry, request)
        yield


def split_overdue(
    tenures: Tenures, waiting: Iterable[tuple[Entry, Request]]
) -> tuple[list[tuple[Entry, Request]], list[tuple[float, Request]]]:
    """(overdue entries, the longest wait first; when each of the others becomes overdue)."""
    now, overdue, coming = tenures.moment.at, [], []
    for entry, request in waiting:
        at = tenures.overdue_since(entry.job)
        if at <= now:
            overdue.append((entry, request))
        else:
            coming.append((at, request))
    return sorted(overdue, key=lambda one: waiting_order(one[0].job)), coming


def bounds_of(cycle: Cycle, admission: Admission, waiting: Sequence[Entry]) -> dict[JobKey, StartBound]:
    """The latest start of every entry, or why there is none.

    `waiting`: entries that had a turn and wait. Call it when only places of overdue jobs are still reserved.
    """
    tenures = admission.tenures
    if not tenures.patience_s or not waiting:
        return {}
    holds = _longest_holds(cycle, admission)
    found: dict[JobKey, StartBound] = {}
    entitled: list[Waiting] = []
    for entry in waiting:
        request = entry.request
        if request is None or not tenures.is_entitled(request):
            found[entry.job.key] = NO_BOUND if request is None else StartBound(basis=_has_to_borrow(request))
            continue
        longest_s = max((_of_others(holds[name], entry.job.key) for name in request.classes), default=inf)
        collection = admission.collections.get(entry.job.key)
        entitled.append(Waiting(entry.job, request.classes, longest_s, collection))
    found |= start_bounds(entitled, tenures)
    for entry in waiting:
        if entry.request is not None and admission.booked.is_behind(entry.request):
            found[entry.job.key] = _BEHIND_BOOKINGS
    return found


_BEHIND_BOOKINGS: Final = StartBound(
    basis="There is no latest start, because GPUs of its class are booked for other queues."
)


def _has_to_borrow(request: Request) -> str:
    gpus = format_gpus(request.workers * min(option.cost.milli for option in request.options))
    return (
        f"There is no latest start, because the job has to borrow: it asks for {gpus} GPU, which the guarantee of its"
        f" queue does not cover, and other queues may claim theirs. A guarantee of {gpus} GPU would give one."
    )


_Longest: TypeAlias = list[tuple[float, JobKey]]
"""(seconds, job) of the two jobs that may hold GPUs of a class longest. An empty key: any job may hold them so long."""


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
    yield from (((gpu_class,), job) for gpu_class, job in cycle.running.longest())
    for entry in cycle.entries:
        if entry.request is not None:
            yield entry.request.classes, entry.job
