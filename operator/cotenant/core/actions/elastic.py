"""Elastic jobs grow into what nobody could use in this cycle. They shrink in `eviction`, before anyone is evicted.

Runs after every pending job had its turn and was refused with all surplus counted as free, so growth changes nobody's
answer: what it takes is surplus again, and is given back first. Growing and shrinking therefore cannot follow each
other without something new happening. Growth stays with the job's class, its required topology and its queue's limits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.core.allocation.allocation import allocation_of
from cotenant.core.allocation.placements import placement_of, with_more
from cotenant.core.allocation.request import Option, Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import PlacementResult, headroom
from cotenant.core.explain.inadmissible import resolve
from cotenant.core.model.formatting import counted
from cotenant.core.model.objects import Job, Placement, TopologyMode
from cotenant.core.model.plan import Admit, Refusal, Resize
from cotenant.core.placement.gang import PlacementRequest, max_workers, place_gang


def grow(cycle: Cycle) -> None:
    """Highest priority first, then the oldest; each takes as much as it may."""
    elastic = [job for job in (*cycle.running.values(), *cycle.pending) if job.workers_max > job.workers_min]
    for job in sorted(elastic, key=lambda job: (-job.priority, job.submitted_at, job.key)):
        placement = _current(cycle, job)
        if placement is not None and placement.workers < job.workers_max:
            _grow(cycle, job, placement)


def _current(cycle: Cycle, job: Job) -> Placement | None:
    """The placement that may grow: admitted in this cycle, or running and left in peace by it."""
    if job.key in cycle.admitted:
        return cycle.admitted[job.key].placement
    if job.evicting or job.resizing_from is not None or job.key in cycle.evicted or job.key in cycle.shrunk:
        return None
    return job.placement


def _grow(cycle: Cycle, job: Job, placement: Placement) -> None:
    request = resolve(cycle, job)
    if isinstance(request, Refusal):
        return
    option = _option_of(cycle, request, placement)
    if option is None:
        return
    idle = cycle.current.ledger.idle() if cycle.tree.limits_lending else None
    room = headroom(cycle.current.usage, request, option, idle)
    ask = _ask(cycle, option, placement)
    ask = replace(ask, zone_workers=room.zone_workers)
    extra = min(job.workers_max - placement.workers, room.workers, max_workers(cycle.current.fit_cache, ask))
    picks = place_gang(cycle.current.fit_cache, ask, extra) if extra > 0 else None
    if picks is None:
        return
    more = placement_of(picks, ask.shape, cycle.inventory)
    holding = allocation_of(job, more, cycle.inventory, cycle.tree)
    if job.preemptible or cycle.search.within_guarantees(cycle.current, request, holding):
        _take(cycle, job, with_more(placement, more), PlacementResult(option, more, holding))


def _take(cycle: Cycle, job: Job, placement: Placement, found: PlacementResult) -> None:
    cycle.allocate(found)
    if job.key in cycle.admitted:
        cycle.admitted[job.key] = Admit(job=job.key, placement=placement)
        return
    cycle.resized[job.key] = Resize(
        job=job.key,
        placement=placement,
        message=f"Grows to {counted(placement.workers, 'worker')}: nobody else can use the room.",
    )


def _option_of(cycle: Cycle, request: Request, placement: Placement) -> Option | None:
    """The way in which the job runs now: growth stays with its class."""
    slot = cycle.inventory.slot_of.get(placement.nodes[0].ranks[0].gpus[0].uuid)
    if slot is None:
        return None
    gpu_class = cycle.inventory.kinds[cycle.inventory.kind[slot]].gpu_class
    return next((option for option in request.options if option.gpu_class in (gpu_class, "")), None)


def _ask(cycle: Cycle, option: Option, placement: Placement) -> PlacementRequest:
    """Growth keeps the topology that is required, other GPUs than the job's own, and none that is suspect: one slow GPU
    would slow down all those that the job has."""
    inventory = cycle.inventory
    held = frozenset(
        inventory.slot_of[grant.uuid]
        for part in placement.nodes
        for rank in part.ranks
        for grant in rank.gpus
        if grant.uuid in inventory.slot_of
    )
    rows, topology = option.placement_request.allowed, option.placement_request.topology
    if topology is not None and topology.mode is TopologyMode.REQUIRED:
        row = inventory.row_of[placement.nodes[0].node]
        domain = {"zone": inventory.zone, "rack": inventory.rack}.get(topology.level, np.arange(len(inventory.nodes)))
        rows = rows & (domain == domain[row])
    avoid = inventory.suspects | (held if option.placement_request.distinct else frozenset())
    return replace(option.placement_request, allowed=rows, unrestricted=False, excluded=avoid, topology=None)
