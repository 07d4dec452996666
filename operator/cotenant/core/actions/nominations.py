"""Leftovers of earlier cycles, handled first: jobs whose node or GPU is lost, and places that were nominated.

A *nominated* place is becoming free for one job, as `nominatedNodeName` of the kube-scheduler keeps a node. The
nomination is kept as long as its place can still become free; the job is admitted there the moment it is. Otherwise it
lapses and the job takes its turn like every other. A new leader does not know the nominated places of the last one: it
searches places for those jobs again before other jobs can take what was evicted for them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.accounts import Accounts
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.cycle.search import PlacementResult, within_guarantees
from cotenant.core.explain.pending_reason import waiting_for_eviction
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, Placement
from cotenant.core.model.plan import Evict, EvictionKind, Reason, Refusal
from cotenant.core.policy import Policy
from cotenant.core.snapshot.snapshot import Snapshot


def inventory_incomplete(snapshot: Snapshot, policy: Policy, running: RunningJobs, moment: Moment) -> Refusal | None:
    """Refusal for every job while the operator, just started, does not yet observe everything that running jobs hold.

    What is not observed is not counted, so a queue could exceed its limit. This lasts for `missing_grace_s` at most;
    then jobs that hold something missing are evicted (`lost_jobs`).
    """
    if moment.has_come(snapshot.watched_since + policy.missing_grace_s):
        return None
    missing = min((running.allocations[key].missing for key in running.incomplete), default="")
    if not missing:
        return None
    return Refusal(
        reason=Reason.NODES_NOT_READY,
        message=f"The operator has just started and does not see {missing} yet, which a running job holds. "
        f"No job starts until it does, or until {policy.missing_grace_s:.0f} s have passed.",
        evidence=(("missing", missing),),
    )


def lost_jobs(running: RunningJobs, inventory: Inventory, moment: Moment, grace_s: float) -> list[Evict]:
    """Evictions of gangs that lost a node or a GPU: such a gang cannot continue; the whole job is requeued.

    A GPU is lost if its node has not listed it for `grace_s`, or if its Node object is deleted. What was never observed
    is lost too: after a restart it had time to appear, because nothing is decided before (`inventory_incomplete`).
    """
    lost_slots = _lost_slots(inventory, moment, grace_s)
    evictions = []
    for key in running.allocations if lost_slots else running.incomplete:
        allocation = running.allocations[key]
        lost = allocation.missing or _first_of(allocation, lost_slots)
        if lost and not running.by_key[key].evicting:
            why = f"Lost {lost}; the job is requeued."
            evictions.append(Evict(job=key, kind=EvictionKind.NODE_LOST, in_favour_of=None, message=why))
    return evictions


def take(cycle: Cycle, entry: Entry, result: PlacementResult) -> None:
    """Admit the entry if its place is free already, else nominate it for the place."""
    if is_free(cycle.accounts.current, entry.job, result):
        cycle.admit(entry, result)
    else:
        cycle.nominate(entry, result, waiting_for_eviction(result.placement))


def kept_place(
    accounts: Accounts, job: Job, request: Request | Refusal, placement: Placement
) -> PlacementResult | None:
    """The nominated place, if it is free or can still become free: for a job that moves, once it has left its old
    one."""
    current, after = accounts.current, accounts.after_evictions
    result = PlacementResult(placement, allocation_of(job, placement, current.inventory, current.tree))
    if isinstance(request, Refusal) or result.allocation.missing:
        return None
    books = (after,) if job.evicting else (current, after)
    return result if any(one is not None and is_free(one, job, result) for one in books) else None


def is_free(occupancy: Occupancy, job: Job, result: PlacementResult) -> bool:
    """True if the job can be placed there now, under all limits; inside guarantees if it is not preemptible."""
    allocation = result.allocation
    return (
        occupancy.fits(allocation, whole=not job.gpu.is_share)
        and occupancy.within_lending_limits(allocation)
        and (job.preemptible or within_guarantees(occupancy, allocation.charge))
    )


def _lost_slots(inventory: Inventory, moment: Moment, grace_s: float) -> dict[tuple[int, int], str]:
    """(row, column) → in words, of GPUs that were last listed before their grace, or whose node is deleted."""
    found = {}
    for row in np.flatnonzero(((inventory.kind >= 0) & ~inventory.usable).any(axis=1)).tolist():
        node = inventory.nodes[row]
        for gpu in node.gpus:
            if node.deleted:
                found[inventory.slot_of[node.name, gpu.uuid]] = f"node {node.name}"
            elif gpu.missing_since is not None and moment.has_come(gpu.missing_since + grace_s):
                found[inventory.slot_of[node.name, gpu.uuid]] = (
                    f"GPU {gpu.uuid}, which node {node.name} does not list any more"
                )
    return found


def _first_of(allocation: Allocation, lost_slots: Mapping[tuple[int, int], str]) -> str:
    held = ((node.row, column) for node in allocation.nodes for column in node.columns)
    return next((lost_slots[slot] for slot in held if slot in lost_slots), "")
