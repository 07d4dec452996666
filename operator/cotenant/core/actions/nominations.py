"""What earlier cycles left to do first: jobs whose node is lost, and places that were promised.

Runs before the line-up. A promise is kept as long as its place can still become free; the job is admitted there the
moment it is. Otherwise the promise lapses and the job takes its turn like everybody else. A job that an earlier leader
was making room for finds a place again in that room, before anybody else is given what was evicted for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import PlacementResult
from cotenant.core.explain.inadmissible import resolve
from cotenant.core.explain.pending_reason import waiting_for_eviction
from cotenant.core.model.objects import Job, Placement
from cotenant.core.model.plan import Evict, EvictionKind, Reason, Refusal
from cotenant.core.queueing.order import order_in_queue


def inventory_incomplete(cycle: Cycle) -> Refusal | None:
    """Why nothing may start now: the operator has just started and does not see all that running jobs hold.

    What it does not see it cannot count, so a queue would get over its limit. For `unseen_s` at most; then whoever
    holds what is missing is asked to leave (`evict_the_lost`).
    """
    if cycle.snapshot.now - cycle.snapshot.watched_since >= cycle.policy.missing_grace_s:
        return None
    missing = min((holding.missing for holding in cycle.allocations.values() if holding.missing), default="")
    if not missing:
        return None
    return Refusal(
        reason=Reason.NODES_NOT_READY,
        message=f"The operator has just started and does not see {missing} yet, which a running job holds; "
        f"nothing starts until it does, or until {cycle.policy.missing_grace_s:.0f} s have passed.",
        evidence=(("missing", missing),),
    )


def evict_lost(cycle: Cycle) -> None:
    """A gang that lost a node or a GPU cannot go on; it leaves whole and is requeued.

    Lost is what has been out of sight for `unseen_s`, and a node that is gone. What nobody has seen at all is lost too:
    after a restart it has had that long to appear, because nothing is decided before (`not_seen_yet`).
    """
    given_up = _lost_slots(cycle, cycle.snapshot.now - cycle.policy.missing_grace_s)
    for key, holding in cycle.allocations.items():
        job = cycle.running[key]
        lost = holding.missing or _first_of(holding, given_up)
        if lost and not job.evicting:
            why = f"Lost {lost}; the job is requeued."
            cycle.evicted[key] = Evict(job=key, kind=EvictionKind.NODE_LOST, in_favour_of=None, message=why)
            cycle.leaving.append(job)


def _lost_slots(cycle: Cycle, before: float) -> dict[tuple[int, int], str]:
    """(row, column) → in words, of GPUs that were last listed before then, or whose node is gone."""
    inventory = cycle.inventory
    found = {}
    for row in np.flatnonzero(((inventory.kind >= 0) & ~inventory.usable).any(axis=1)).tolist():
        node = inventory.nodes[row]
        for gpu in node.gpus:
            if node.deleted:
                found[inventory.slot_of[gpu.uuid]] = f"node {node.name}"
            elif gpu.missing_since is not None and gpu.missing_since <= before:
                found[inventory.slot_of[gpu.uuid]] = f"GPU {gpu.uuid}, which node {node.name} does not list any more"
    return found


def _first_of(holding: Allocation, given_up: Mapping[tuple[int, int], str]) -> str:
    if not given_up:
        return ""
    held = ((take.row, column) for take in holding.nodes for column in take.columns)
    return next((given_up[slot] for slot in held if slot in given_up), "")


def _keep(cycle: Cycle, job: Job, placement: Placement) -> bool:
    request = resolve(cycle, job)
    holding = allocation_of(job, placement, cycle.inventory, cycle.tree)
    if isinstance(request, Refusal) or holding.missing:
        return False
    found = PlacementResult(request.options[0], placement, holding)
    whole = not job.gpu.is_share
    if cycle.current.fits(holding, whole=whole) and cycle.current.within_lending_limits(holding):
        cycle.admit(job, found)
        return True
    if (
        cycle.after_evictions is not None
        and cycle.after_evictions.fits(holding, whole=whole)
        and cycle.after_evictions.within_lending_limits(holding)
    ):
        cycle.nominate(job.key, found)
        cycle.verdicts[job.key] = waiting_for_eviction(placement).verdict(job.key)
        return True
    return False


def keep_nominations(cycle: Cycle) -> list[Job]:
    """Admit or hold again what was promised; returns the jobs that take an ordinary turn."""
    promised = dict(cycle.snapshot.nominations)
    for key in sorted(promised):
        job = cycle.running.get(key)
        if job is not None and job.evicting:
            _keep_for_moving(cycle, job, promised[key])
    return [
        job
        for job in sorted(cycle.pending, key=lambda job: job.key)
        if job.key not in promised or not _keep(cycle, job, promised[job.key])
    ]


def renominate(cycle: Cycle, jobs: list[Job]) -> list[Job]:
    """Places for the jobs that are owed one, by priority and age; returns the jobs that take an ordinary turn."""
    owed = [job for job in jobs if job.key in cycle.snapshot.nominated_earlier]
    settled = {job.key for job in sorted(owed, key=order_in_queue) if _renominated(cycle, job)}
    return [job for job in jobs if job.key not in settled]


def _renominated(cycle: Cycle, job: Job) -> bool:
    request = resolve(cycle, job)
    if isinstance(request, Refusal):
        return False
    found = cycle.find(cycle.current, request, request.workers)
    if found is not None:
        cycle.admit(job, found)
        return True
    coming = cycle.find_later(request)
    if coming is not None:
        cycle.nominate(job.key, coming)
        cycle.verdicts[job.key] = waiting_for_eviction(coming.placement).verdict(job.key)
    return coming is not None


def _keep_for_moving(cycle: Cycle, job: Job, placement: Placement) -> None:
    """A job that is still on its way out, to a place that is kept for it."""
    holding = allocation_of(job, placement, cycle.inventory, cycle.tree)
    request = resolve(cycle, job)
    if isinstance(request, Refusal) or holding.missing:
        return
    later = cycle.open_later()
    if later.fits(holding, whole=not job.gpu.is_share) and later.within_lending_limits(holding):
        cycle.nominate(job.key, PlacementResult(request.options[0], placement, holding))
