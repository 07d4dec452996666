"""`schedule(snapshot, policy) -> Plan`: the table of contents of a decision. Pure: same value in, same plan out.

The controller, the simulator, the what-if and the explanation all call this one function. Kueue takes the head of each
queue and leaves placement to the kube-scheduler; KAI-Scheduler runs allocate, reclaim and preempt one after the other
over all jobs. Here every job has one turn, in which it starts, has room made for it, or is told why not.
"""

from __future__ import annotations

from cotenant.core.actions.backfill import find_before, lift_reservations, reserve
from cotenant.core.actions.consolidate import consolidate
from cotenant.core.actions.elastic import grow
from cotenant.core.actions.evict import make_room
from cotenant.core.actions.nominations import evict_the_lost, find_again, keep_promises, not_seen_yet
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import Found
from cotenant.core.explain.forecast import forecast
from cotenant.core.explain.inadmissible import resolve
from cotenant.core.explain.pending_reason import explain, room_is_made
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Plan, Refusal
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.queueing.fair_share import entitled
from cotenant.core.queueing.order import Lineup
from cotenant.core.snapshot.snapshot import Snapshot


def schedule(snapshot: Snapshot, policy: Policy = DEFAULT) -> Plan:
    """Decide one cycle: who starts where, who leaves for whom, and why everybody else waits."""
    cycle = Cycle.open(snapshot, policy)
    if (unseen := not_seen_yet(cycle)) is not None:
        return stand_still(cycle, unseen)

    evict_the_lost(cycle)
    waiting = keep_promises(cycle)
    waiting = find_again(cycle, waiting)
    waiting = turn_away(cycle, waiting)

    for job in line_up(cycle, waiting):
        judge(cycle, job)

    lift_reservations(cycle)
    forecast(cycle)
    consolidate(cycle)
    grow(cycle)
    return cycle.plan()


def stand_still(cycle: Cycle, why: Refusal) -> Plan:
    """Nobody starts or leaves, and what was promised stays promised."""
    for job in turn_away(cycle, list(cycle.pending)):
        cycle.verdicts[job.key] = why.verdict(job.key)
    cycle.promises |= dict(cycle.snapshot.promises)
    return cycle.plan()


def turn_away(cycle: Cycle, jobs: list[Job]) -> list[Job]:
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


def line_up(cycle: Cycle, jobs: list[Job]) -> Lineup:
    """Guarantee → share → priority → age → key, as the books stand at each turn."""
    usage, asked = cycle.now.usage, cycle.asked
    return Lineup(cycle.tree, usage, cycle.shares, lambda queue, job: entitled(usage, asked[job.key], queue), jobs)


def judge(cycle: Cycle, job: Job) -> None:
    """One turn: a place now, a place soon, or a reason."""
    request = cycle.asked[job.key]
    if (found := place_now(cycle, job, request)) is not None:
        cycle.admit(job, found)
    elif (found := place_soon(cycle, job, request)) is not None:
        cycle.verdicts[job.key] = room_is_made(found.placement).verdict(job.key)
    else:
        refuse(cycle, job, request)


def place_now(cycle: Cycle, job: Job, request: Request) -> Found | None:
    """Room that is free, or that is kept for somebody until after this job has ended. A request that was refused stays
    refused, because room only becomes less within a cycle; but not all jobs that ask for the same end by then."""
    found = None if request in cycle.refused else cycle.find(cycle.now, request, request.workers)
    return found or find_before(cycle, job, request)


def place_soon(cycle: Cycle, job: Job, request: Request) -> Found | None:
    """Room that those give back who are leaving anyway, or who are asked to leave now. It is held for the job."""
    if request in cycle.refused:
        return None
    found = cycle.find_later(request)
    if found is None:
        return make_room(cycle, job, request)
    cycle.promise(job.key, found)
    return found


def refuse(cycle: Cycle, job: Job, request: Request) -> None:
    """Equal requests share one reason, worked out for the first of them; its coming place may be kept for it."""
    if request not in cycle.refused:
        cycle.entitled_waits = cycle.entitled_waits or entitled(cycle.now.usage, request, request.queue)
        cycle.refused[request] = explain(cycle, request)
        reserve(cycle, job, request)
    cycle.waiting.append(job)
