"""Small jobs may go first, but not at the expense of a large one that waits for its GPUs: EASY backfill.

The first job per GPU class that finds no room, and whose start can be estimated, gets a *reservation*: the place that
it will have then. Whoever comes later in the line may use those GPUs only if it is sure to have ended by that time:
    now + maximum (or expected) runtime  ≤  estimated start of the reservation
(EASY: Lifka, JSSPP 1995; Slurm's backfill is of the same family). Jobs that do not say how long they run go elsewhere.
Reservations last one cycle and are made only for starts within `Policy.reserve_within_s`, so GPUs stand idle for a
known and short time. Example: 8 GPUs, 6 busy for 10 minutes more, a gang of 8 waits: a job of 5 minutes takes a free
one, a job of an hour does not.
"""

from __future__ import annotations

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import PlacementResult, Reservation
from cotenant.core.explain.forecast import start_of
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Reason
from cotenant.core.quota.usage import Charge

WAITING_FOR_NODES = frozenset({Reason.WAITING_FOR_GPUS, Reason.WAITING_FOR_CPU_OR_MEMORY, Reason.WAITING_FOR_TOPOLOGY})


def reserve(cycle: Cycle, job: Job, request: Request) -> None:
    """Keep the coming place of a job that was just refused, if it is the first in line for its classes."""
    classes = {bucket[0] for option in request.options for bucket in option.buckets}
    if cycle.refused[request].reason not in WAITING_FOR_NODES or classes & cycle.reservations.keys():
        return
    cycle.reservations.update(dict.fromkeys(sorted(classes)))
    coming = start_of(cycle, request)
    if coming is None or coming[0] > cycle.snapshot.now + cycle.policy.reserve_within_s:
        return
    starts_at, found = coming
    holding = Allocation(found.allocation.nodes, Charge(-1, "", ()))
    kept = Reservation(job.key, starts_at, holding)
    cycle.allocate(PlacementResult(found.option, found.placement, holding))
    for bucket, _, _ in found.allocation.charge.amounts:
        cycle.reservations[bucket[0]] = kept


def backfill(cycle: Cycle, job: Job, request: Request) -> PlacementResult | None:
    """A place on reserved GPUs for a job that has ended in time."""
    runtime = job.max_runtime_s or job.expected_runtime_s
    if runtime is None:
        return None
    usable = [kept for kept in _distinct(cycle) if cycle.snapshot.now + runtime <= kept.starts_at]
    tried = request, frozenset(kept.job for kept in usable)
    if not usable or tried in cycle.backfilled:
        return None
    with cycle.current.trial():
        for kept in usable:
            cycle.current.release(kept.allocation)
        found = cycle.find(cycle.current, request, request.workers)
    if found is None:
        cycle.backfilled.add(tried)
    return found


def release_reservations(cycle: Cycle) -> None:
    """All reservations end: what comes after the line-up takes nothing that cannot be taken back."""
    for kept in _distinct(cycle):
        cycle.current.release(kept.allocation)
        if cycle.after_evictions is not None:
            cycle.after_evictions.release(kept.allocation)
    cycle.reservations.clear()


def _distinct(cycle: Cycle) -> list[Reservation]:
    return list({kept.job: kept for kept in cycle.reservations.values() if kept is not None}.values())
