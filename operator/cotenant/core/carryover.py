"""What earlier cycles left to do first: jobs whose node is lost, and places that were promised.

Runs before the line-up. A promise is kept as long as its place can still become free; the job is admitted there the
moment it is. Otherwise the promise lapses and the job takes its turn like everybody else.
"""

from __future__ import annotations

from cotenant.core.books import holding_of
from cotenant.core.cycle import Cycle, Found, Refusal
from cotenant.core.model import Job, Placement
from cotenant.core.plan import Evict, EvictionKind
from cotenant.core.refusals import resolve
from cotenant.core.waiting import room_is_made


def evict_the_lost(cycle: Cycle) -> None:
    """A gang that lost a node or a GPU cannot go on; it leaves whole and is requeued."""
    for job in cycle.running.values():
        gone = None if job.evicting else _lost(cycle, job)
        if gone is not None:
            cycle.evicted[job.key] = Evict(
                job=job.key,
                kind=EvictionKind.NODE_LOST,
                in_favour_of=None,
                message=f"Lost {gone}; the job is requeued.",
            )
            cycle.leaving.append(job)


def _lost(cycle: Cycle, job: Job) -> str | None:
    inventory = cycle.inventory
    if job.placement is None:
        return None
    for part in job.placement.nodes:
        if part.node not in inventory.row_of:
            return f"node {part.node}"
        for rank in part.ranks:
            for grant in rank.gpus:
                if grant.uuid not in inventory.slot_of:
                    return f"GPU {grant.uuid} of node {part.node}"
    return None


def _kept(cycle: Cycle, job: Job, placement: Placement) -> bool:
    request = resolve(cycle, job)
    if isinstance(request, Refusal) or not _whole(cycle, placement):
        return False
    found = Found(request.options[0], placement, holding_of(job, placement, cycle.inventory, cycle.tree))
    whole = not job.gpu.is_share
    if cycle.now.fits(found.holding, whole=whole):
        cycle.admit(job, found)
        return True
    if cycle.later is not None and cycle.later.fits(found.holding, whole=whole):
        cycle.promise(job.key, found)
        cycle.verdicts[job.key] = room_is_made(placement).verdict(job.key)
        return True
    return False


def _whole(cycle: Cycle, placement: Placement) -> bool:
    """Every GPU of it still exists."""
    return all(
        grant.uuid in cycle.inventory.slot_of for part in placement.nodes for rank in part.ranks for grant in rank.gpus
    )


def keep_promises(cycle: Cycle) -> list[Job]:
    """Admit or hold again what was promised; returns the jobs that take an ordinary turn."""
    promised = dict(cycle.snapshot.promises)
    return [
        job
        for job in sorted(cycle.pending, key=lambda job: job.key)
        if job.key not in promised or not _kept(cycle, job, promised[job.key])
    ]
