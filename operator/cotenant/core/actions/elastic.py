"""Elastic jobs grow into what no pending job could use. They shrink in `evict`, before any job is evicted.

Jobs grow only after every pending job has had its turn. In those turns all surplus workers counted as free, so a job
that was refused could not have used them. So growing and shrinking cannot alternate unless something else happens.
Growth stays within the job's class, its required topology and its queue's limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cotenant.core.allocation.allocation import allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.placements import placement_of, with_more
from cotenant.core.allocation.request import Option, Request
from cotenant.core.cycle.search import PlacementResult, headroom, within_guarantees
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.formatting import counted
from cotenant.core.model.objects import Job, JobKey, Placement, TopologyMode
from cotenant.core.model.plan import Resize
from cotenant.core.placement.gang import max_workers, place_gang
from cotenant.core.placement.gang_request import PlacementRequest, domains_of
from cotenant.core.queueing.order import order_in_queue


def growth_order(jobs: Iterable[Job]) -> list[Job]:
    """Elastic jobs: highest priority first, then the oldest."""
    return sorted((job for job in jobs if job.workers_max > job.workers_min), key=order_in_queue)


def grow(job: Job, placement: Placement, request: Request, current: Occupancy) -> PlacementResult | None:
    """The placement with as many more workers as fit and quotas allow, up to the job's maximum, and what it takes
    besides. None if no more fit.
    """
    option = _option_of(request, placement, current.inventory)
    if option is None:
        return None
    allowed = headroom(current.usage, request, option, current.lendable_idle())
    wanted = replace(_wanted(option, placement, current.inventory), zone_workers=allowed.zone_workers)
    extra = min(job.workers_max - placement.workers, allowed.workers, max_workers(current.fit_cache, wanted))
    assignments = place_gang(current.fit_cache, wanted, extra) if extra > 0 else None
    if assignments is None:
        return None
    more = placement_of(assignments, wanted.shape, current.inventory, first_rank=placement.workers)
    allocation = allocation_of(job, more, current.inventory, current.tree)
    if not job.preemptible and not within_guarantees(current, allocation.charge):
        return None
    return PlacementResult(with_more(placement, more), allocation)


def resize(job: JobKey, growth: PlacementResult) -> Resize:
    return Resize(
        job=job,
        placement=growth.placement,
        message=f"Grows to {counted(growth.placement.workers, 'worker')}: no other job can use these GPUs.",
    )


def _option_of(request: Request, placement: Placement, inventory: Inventory) -> Option | None:
    """The way in which the job runs now: growth stays with its class, and with its kind of device."""
    first = placement.nodes[0]
    slot = inventory.slot_of.get((first.node, first.ranks[0].gpus[0].uuid))
    if slot is None:
        return None
    kind = inventory.kinds[inventory.kind[slot]]
    ways = (option for option in request.options if option.gpu_class in (kind.gpu_class, ""))
    return next((way for way in ways if way.placement_request.shape.only_resources in ((), (kind.resource,))), None)


def _wanted(option: Option, placement: Placement, inventory: Inventory) -> PlacementRequest:
    """The request for more workers. It keeps the spread and a required topology, and excludes the job's own GPUs and
    suspect ones: one slow GPU would slow down all others of the job."""
    held = frozenset(
        inventory.slot_of[part.node, grant.uuid]
        for part in placement.nodes
        for rank in part.ranks
        for grant in rank.gpus
    )
    request = option.placement_request
    rows, topology = request.rows, request.topology
    if topology is not None and topology.mode is TopologyMode.REQUIRED:
        row = inventory.row_of[placement.nodes[0].node]
        domain = domains_of(inventory, topology.level)
        rows = np.flatnonzero(domain == domain[row])
        rows = rows[np.isin(rows, np.arange(len(domain))[request.rows])]
    excluded = inventory.suspects | (held if request.distinct else frozenset())
    there: dict[int, int] = {}
    if request.spread is not None:
        of_row = domains_of(inventory, request.spread.level)
        for part in placement.nodes:
            one = int(of_row[inventory.row_of[part.node]])
            there[one] = there.get(one, 0) + len(part.ranks)
    return replace(request, rows=rows, chief=None, excluded=excluded, topology=None, domain_workers=there)
