"""`schedule(snapshot, policy) -> Plan`: the table of contents of a decision. Pure: same value in, same plan out.

The controller, the simulator, the what-if and the explanation all call this one function.
"""

from __future__ import annotations

from cotenant.core.backfill import find_before, lift, reserve
from cotenant.core.carryover import evict_the_lost, find_again, keep_promises
from cotenant.core.consolidation import consolidate
from cotenant.core.cycle import Cycle
from cotenant.core.elastic import grow
from cotenant.core.eviction import make_room
from cotenant.core.fairness import entitled
from cotenant.core.forecast import forecast
from cotenant.core.model import Job
from cotenant.core.ordering import Lineup
from cotenant.core.plan import Plan, Refusal
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.refusals import resolve
from cotenant.core.snapshot import Snapshot
from cotenant.core.waiting import explain, room_is_made


def schedule(snapshot: Snapshot, policy: Policy = DEFAULT) -> Plan:
    """Decide one cycle: who starts where, who leaves for whom, and why everybody else waits."""
    cycle = Cycle.open(snapshot, policy)
    lineup = Lineup(
        cycle.tree,
        cycle.now.usage,
        cycle.shares,
        lambda queue, job: entitled(cycle.now.usage, cycle.asked[job.key], queue),
    )
    evict_the_lost(cycle)
    lineup.fill(_able(cycle, find_again(cycle, keep_promises(cycle))))
    while (job := lineup.next()) is not None:
        judge(cycle, job)
        lineup.settle()
    lift(cycle)
    forecast(cycle)
    consolidate(cycle)
    grow(cycle)
    return cycle.plan()


def _able(cycle: Cycle, jobs: list[Job]) -> list[Job]:
    """Jobs that could ever start; the others get their verdict here."""
    able = []
    for job in jobs:
        request = resolve(cycle, job)
        if isinstance(request, Refusal):
            cycle.verdicts[job.key] = request.verdict(job.key)
        else:
            cycle.asked[job.key] = request
            able.append(job)
    return able


def judge(cycle: Cycle, job: Job) -> None:
    """One job: a place now, a place that is being made, or a reason. Equal requests share a refusal."""
    request = cycle.asked[job.key]
    if request not in cycle.refused:
        found = cycle.find(cycle.now, request, request.workers) or find_before(cycle, job, request)
        if found is not None:
            cycle.admit(job, found)
            return
        coming = cycle.find_later(request)
        if coming is not None:
            cycle.promise(job.key, coming)
        else:
            coming = make_room(cycle, job, request)
        if coming is not None:
            cycle.verdicts[job.key] = room_is_made(coming.placement).verdict(job.key)
            return
        cycle.entitled_waits = cycle.entitled_waits or entitled(cycle.now.usage, request, request.queue)
        cycle.refused[request] = explain(cycle, request)
        reserve(cycle, job, request)
    cycle.waiting.append(job)
