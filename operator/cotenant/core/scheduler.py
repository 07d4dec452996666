"""`schedule(snapshot, policy) -> Plan`: the table of contents of a decision. Pure: same value in, same plan out.

The controller, the simulator, the what-if and the explanation all call this one function.
"""

from __future__ import annotations

from cotenant.core.cycle import Cycle, Refusal
from cotenant.core.fairness import entitled
from cotenant.core.model import Job, Snapshot
from cotenant.core.ordering import Lineup
from cotenant.core.plan import Plan, Reason
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.refusals import resolve
from cotenant.core.requests import Request, key_of
from cotenant.core.waiting import explain


def schedule(snapshot: Snapshot, policy: Policy = DEFAULT) -> Plan:
    """Decide one cycle: who starts where, who leaves for whom, and why everybody else waits."""
    cycle = Cycle.open(snapshot, policy)
    lineup = Lineup(cycle.tree, cycle.now.usage, cycle.shares, lambda queue, job: _entitled(cycle, queue, job))
    lineup.fill(_able(cycle))
    while (job := lineup.next()) is not None:
        judge(cycle, job)
        lineup.settle()
    return cycle.plan()


def _able(cycle: Cycle) -> list[Job]:
    """Pending jobs that could ever start; the others get their verdict here."""
    able = []
    for job in cycle.pending:
        request = resolve(cycle, job)
        if isinstance(request, Refusal):
            cycle.verdicts[job.key] = request.verdict(job.key)
        else:
            able.append(job)
    return able


def _entitled(cycle: Cycle, queue: int, job: Job) -> bool:
    request = cycle.requests[key_of(job)]
    return isinstance(request, Request) and any(
        entitled(cycle.now.usage, queue, option.buckets, request.workers * option.milli) for option in request.options
    )


def judge(cycle: Cycle, job: Job) -> None:
    """One job: a place now, a place that is being made, or a reason. Equal requests share a refusal."""
    key = key_of(job)
    request = cycle.requests[key]
    refusal = request if isinstance(request, Refusal) else cycle.refused.get(key)
    if refusal is None and isinstance(request, Request):
        found = cycle.find(cycle.now, request, request.workers)
        if found is not None:
            cycle.admit(job, found)
            return
        if _promised(cycle, job, request):
            return
        refusal = cycle.refused[key] = explain(cycle, request)
    if refusal is not None:
        cycle.verdicts[job.key] = refusal.verdict(job.key)


def _promised(cycle: Cycle, job: Job, request: Request) -> bool:
    """A place that is free once those who are leaving have left."""
    later = cycle.later
    if later is None:
        return False
    found = cycle.find(later, request, request.workers)
    if found is None:
        return False
    cycle.promise(found)
    nodes = ", ".join(part.node for part in found.placement.nodes[:3])
    cycle.verdicts[job.key] = Refusal(
        reason=Reason.WAITING_FOR_EVICTION,
        message=f"Room is being made on {nodes}: it starts as soon as the jobs that were asked to leave are gone.",
    ).verdict(job.key)
    return True
