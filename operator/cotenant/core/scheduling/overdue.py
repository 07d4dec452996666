"""Turns of overdue jobs, which have waited too long.

Overdue jobs that are entitled to what they ask for go first, the longest wait before the others. An overdue job that
has to borrow goes before all other jobs that borrow. So it delays no job inside a guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from cotenant.core.actions.tenure import Tenures, waiting_order
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry, EntryOutcome
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.scheduling.admission import Admission


def give_turns(
    cycle: Cycle,
    admission: Admission,
    overdue: Sequence[tuple[Entry, Request]],
    coming: Iterable[tuple[float, Request]],
    ordered: Iterable[tuple[Entry, Request]],
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
