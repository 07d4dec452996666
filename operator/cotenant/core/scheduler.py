"""`schedule(snapshot, policy) -> Plan`: the table of contents of a decision. Pure: same value in, same plan out.

The controller, the simulator, the what-if and the explanation all call this one function. Kueue takes the head of each
queue and leaves placement to the kube-scheduler; KAI-Scheduler runs allocate, reclaim and preempt one after the other
over all jobs. Here every job has one turn, in which it starts, has room made for it, or is told why not.
"""

from __future__ import annotations

from cotenant.core.actions.backfill import backfill, release_reservations, reserve
from cotenant.core.actions.consolidate import consolidate
from cotenant.core.actions.elastic import grow
from cotenant.core.actions.evict import find_victims
from cotenant.core.actions.nominations import evict_lost, inventory_incomplete, keep_nominations, renominate
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import PlacementResult
from cotenant.core.explain.forecast import forecast
from cotenant.core.explain.inadmissible import resolve
from cotenant.core.explain.pending_reason import explain, waiting_for_eviction
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Plan, Refusal
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.queueing.order import QueueOrder
from cotenant.core.snapshot.snapshot import Snapshot


def schedule(snapshot: Snapshot, policy: Policy = DEFAULT) -> Plan:
    """Decide one cycle: who starts where, who leaves for whom, and why everybody else waits."""
    cycle = Cycle.open(snapshot, policy)
    if (unseen := inventory_incomplete(cycle)) is not None:
        return hold_cycle(cycle, unseen)

    evict_lost(cycle)
    waiting = keep_nominations(cycle)
    waiting = renominate(cycle, waiting)
    waiting = reject_infeasible(cycle, waiting)

    for job in order(cycle, waiting):
        try_admit(cycle, job)

    release_reservations(cycle)
    forecast(cycle)
    consolidate(cycle)
    grow(cycle)
    return cycle.plan()


def hold_cycle(cycle: Cycle, why: Refusal) -> Plan:
    """Nobody starts or leaves, and what was promised stays promised."""
    for job in reject_infeasible(cycle, list(cycle.pending)):
        cycle.verdicts[job.key] = why.verdict(job.key)
    cycle.nominations |= dict(cycle.snapshot.nominations)
    return cycle.plan()


def reject_infeasible(cycle: Cycle, jobs: list[Job]) -> list[Job]:
    """Who can never start as things are is told so, exactly and once; returns the others."""
    able = []
    for job in jobs:
        request = resolve(cycle, job)
        if isinstance(request, Refusal):
            cycle.verdicts[job.key] = request.verdict(job.key)
        else:
            cycle.asked[job.key] = request
            able.append(job)
    return able


def order(cycle: Cycle, jobs: list[Job]) -> QueueOrder:
    """Guarantee → share → priority → age → key, as the books stand at each turn."""
    usage, asked = cycle.current.usage, cycle.asked
    return QueueOrder(
        cycle.tree, usage, cycle.shares, lambda queue, job: within_guarantee(usage, asked[job.key], queue), jobs
    )


def try_admit(cycle: Cycle, job: Job) -> None:
    """One turn: a place now, a place soon, or a reason."""
    request = cycle.asked[job.key]
    if (found := fit_now(cycle, job, request)) is not None:
        cycle.admit(job, found)
    elif (found := fit_after_evictions(cycle, job, request)) is not None:
        cycle.verdicts[job.key] = waiting_for_eviction(found.placement).verdict(job.key)
    else:
        refuse(cycle, job, request)


def fit_now(cycle: Cycle, job: Job, request: Request) -> PlacementResult | None:
    """Room that is free, or that is kept for somebody until after this job has ended. A request that was refused stays
    refused, because room only becomes less within a cycle; but not all jobs that ask for the same end by then."""
    found = None if request in cycle.refused else cycle.find(cycle.current, request, request.workers)
    return found or backfill(cycle, job, request)


def fit_after_evictions(cycle: Cycle, job: Job, request: Request) -> PlacementResult | None:
    """Room that those give back who are leaving anyway, or who are asked to leave now. It is held for the job."""
    if request in cycle.refused:
        return None
    found = cycle.find_later(request)
    if found is None:
        return find_victims(cycle, job, request)
    cycle.nominate(job.key, found)
    return found


def refuse(cycle: Cycle, job: Job, request: Request) -> None:
    """Equal requests share one reason, worked out for the first of them; its coming place may be kept for it."""
    if request not in cycle.refused:
        cycle.entitled_waits = cycle.entitled_waits or within_guarantee(cycle.current.usage, request, request.queue)
        cycle.refused[request] = explain(cycle, request)
        reserve(cycle, job, request)
    cycle.waiting.append(job)
