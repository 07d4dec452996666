"""Turns of jobs that have waited too long, and the time by which every job has started at the latest.

Entitled jobs that are overdue go first, the longest wait before the others. An overdue job that has to borrow goes
before all others that borrow: it delays nobody inside a guarantee, and has no bound where guarantees are in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from cotenant.core.actions.collect import COUNTS_ON_LEARNED
from cotenant.core.actions.holding_times import HoldingTimes, LongestHolds
from cotenant.core.actions.start_bounds import HAS_TO_BORROW, Waiting, start_bounds, waiting_order
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry, EntryOutcome
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import StartBound
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.scheduling.admission import Admission

Turns: TypeAlias = Iterable[tuple[Entry, Request]]


def give_turns(cycle: Cycle, admission: Admission, feasible: Turns, ordered: Turns) -> None:
    """Every entry has one turn. `ordered`: the usual order, which is chosen while turns are given."""
    tenures = admission.tenures
    waiting = list(feasible)
    since = [tenures.overdue_since(entry.job) for entry, _ in waiting]
    now = tenures.moment.unnoted
    overdue = [one for one, at in zip(waiting, since, strict=True) if at <= now]
    overdue.sort(key=lambda one: waiting_order(one[0].job))
    entitled = [one for one in overdue if tenures.is_entitled(one[1])]
    borrowers = [one for one in overdue if not tenures.is_entitled(one[1])]
    for entry, request in entitled:
        admission.collect_for(entry, request)
    for (_, request), at in zip(waiting, since, strict=True):
        if not admission.is_spoken_for(request):  # else it changes nothing that the job becomes overdue as well
            tenures.moment.has_come(at)
    usage = cycle.accounts.current.usage
    admission.usage = usage.copy() if admission.collections else usage  # what is collected is given back
    for entry, request in ordered:
        if borrowers and not within_guarantee(usage, request, request.queue):
            for other, wanted in borrowers:
                if other.outcome is EntryOutcome.UNDECIDED and admission.collect_for(other, wanted):
                    admission.gave = True  # and so turns after it look at other shares
            borrowers = []
        if entry.outcome is EntryOutcome.UNDECIDED:
            admission.try_admit(entry, request)


def bound_starts(cycle: Cycle, admission: Admission, waiting: Sequence[Entry]) -> None:
    """Note the latest start of every entry, or why there is none. `waiting`: entries that had a turn and wait, with
    nothing kept for them but what is collected."""
    tenures = admission.tenures
    if not tenures.patience_s or not waiting:
        return
    longest = _longest_holds(cycle, admission)
    entitled: list[Waiting] = []
    classes: set[str] = set()
    for entry in sorted(waiting, key=lambda entry: waiting_order(entry.job)):
        request = entry.request
        if request is None or not tenures.is_entitled(request):
            entry.bound = _NO_CLAIM
            continue
        longest_s, is_certain = longest.longest_s(entry.job, request)
        collection = admission.collections.get(entry.job.key)
        is_overdue = classes.isdisjoint(request.classes) and tenures.is_overdue(
            entry.job
        )  # of others it does not matter
        classes.update(request.classes)
        entitled.append(Waiting(entry.job, request.classes, longest_s, is_certain, is_overdue, collection))
    found = start_bounds(entitled, patience_s=tenures.patience_s, on_learned=COUNTS_ON_LEARNED)
    for entry in waiting:
        entry.bound = found.get(entry.job.key, entry.bound)
        if entry.request is not None and admission.booked.is_behind(entry.request):
            entry.bound = _BEHIND_BOOKINGS


_BEHIND_BOOKINGS: Final = StartBound(basis="GPUs of its class are booked for other queues, and are kept for them.")
_NO_CLAIM: Final = StartBound(basis=HAS_TO_BORROW)


class _Held:
    """Holdings of jobs, or what is kept for them; listed only where it is asked for."""

    __slots__ = ("_admission", "_cycle")

    def __init__(self, cycle: Cycle, admission: Admission) -> None:
        self._cycle, self._admission = cycle, admission

    def __iter__(self) -> Iterator[tuple[JobKey, Allocation]]:
        cycle = self._cycle
        yield from cycle.running.allocations.items()
        yield from ((job.key, allocation) for job, allocation in (*cycle.started, *cycle.nominated))
        yield from ((key, one.reservation.allocation) for key, one in self._admission.collections.items())


def _longest_holds(cycle: Cycle, admission: Admission) -> LongestHolds:
    wanted = [(entry.job, entry.request) for entry in cycle.entries if entry.request is not None]
    held = _Held(cycle, admission)
    return LongestHolds(HoldingTimes.of(cycle.running, wanted), admission.tenures, held, cycle.accounts.current)
