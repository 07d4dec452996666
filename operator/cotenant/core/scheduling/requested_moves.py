"""Moves that an administrator asked for: a job leaves once there is a place for it where it was asked to lie.

The new place is found and reserved before the job is asked to leave. If there is none, the job stays, and the next
cycle tries again. Neither protection from evictions nor shares count here; quotas and limits do.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.outcome import Departures
from cotenant.core.cycle.search import PlacementResult, find
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Evict, EvictionKind, Refusal


def move_as_asked(cycle: Cycle, resolve: Callable[[Job], Request | Refusal]) -> None:
    """Evict every job for which there is a place where it was asked to lie, and reserve that place for it."""
    for job in cycle.running.to_move:
        if not (cycle.stays(job) and job.preemptible and lies_elsewhere(job, cycle.inventory)):
            continue
        place = _place(cycle, job, resolve(job))
        if place is None:
            continue
        cycle.accounts.depart(job.key, cycle.running.allocations[job.key])
        cycle.outcome.add(Departures((_eviction(job, place),)))
        cycle.nominate_move(job, place)


def lies_elsewhere(job: Job, inventory: Inventory) -> bool:
    """True if the job holds GPUs on a node, or of a class, that it was asked to leave."""
    wanted = frozenset(job.gpu.classes)
    for part in job.placement.nodes if job.placement else ():
        if part.node in job.excluded_nodes or (job.only_nodes and part.node not in job.only_nodes):
            return True
        held = part.uuids
        row = inventory.row_of.get(part.node)
        gpus = inventory.nodes[row].gpus if row is not None and wanted else ()
        if any(gpu.uuid in held and gpu.gpu_class not in wanted for gpu in gpus):
            return True
    return False


def _place(cycle: Cycle, job: Job, request: Request | Refusal) -> PlacementResult | None:
    """A place for all workers that it runs with, else for its minimum."""
    if isinstance(request, Refusal) or job.placement is None:
        return None
    after = cycle.accounts.open_after_evictions()
    with after.trial():
        after.release(cycle.running.allocations[job.key])
        found = (find(after, request, workers) for workers in dict.fromkeys((job.placement.workers, job.workers_min)))
        return next((place for place in found if place is not None), None)


def _eviction(job: Job, place: PlacementResult) -> Evict:
    where = ", ".join(f"{part.node} ({len(part.ranks)})" for part in place.placement.nodes)
    message = f"An administrator moves it. Its new place is reserved, with workers on {where}."
    return Evict(job=job.key, kind=EvictionKind.MOVED, in_favour_of=None, message=message)
