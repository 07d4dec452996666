"""Why a job that could start has to wait now: quota, GPUs, CPU or memory, topology, in that order of what is nearest.

Called once per kind of request, after placement and eviction both said no. Says how the GPUs in question stand, so that
a tenant sees the same world as the scheduler.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from cotenant.core.allocation.request import Option, Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import headroom
from cotenant.core.explain.inadmissible import exceeded
from cotenant.core.model.formatting import counted, describe_request, format_gpus
from cotenant.core.model.objects import WHOLE, Placement
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement.gang import max_workers
from cotenant.core.quota.usage import BindingLimit


def explain(cycle: Cycle, request: Request) -> Refusal:
    """The dominant reason: the rule or resource that is nearest to letting the job start."""
    idle = cycle.current.ledger.idle() if cycle.tree.limits_lending else None
    blocked: tuple[int, Option, BindingLimit] | None = None
    for option in request.options:
        room = headroom(cycle.current.usage, request, option, idle)
        if room.workers < request.workers and room.binding is not None:
            if blocked is None or room.workers > blocked[0]:
                blocked = room.workers, option, room.binding
            continue
        zone_bound = _zones_short(request, room.zone_workers, option)
        if zone_bound is not None:
            blocked = blocked or (0, option, room.zone_binding[zone_bound])
            continue
        return _no_space(cycle, request, option)
    if blocked is None:
        return _no_space(cycle, request, request.options[0])
    return exceeded(Reason.WAITING_FOR_QUOTA, request, blocked[1], blocked[2])


def waiting_for_eviction(placement: Placement) -> Refusal:
    """A place is promised, and those who hold it were asked to leave."""
    nodes = ", ".join(part.node for part in placement.nodes[:3])
    more = f" and {len(placement.nodes) - 3} more" if len(placement.nodes) > 3 else ""
    return Refusal(
        reason=Reason.WAITING_FOR_EVICTION,
        message=f"Room is being made on {nodes}{more}; it starts as soon as those who were asked to leave are gone.",
        evidence=(("nodes", nodes + more),),
    )


def _zones_short(request: Request, zones: dict[str, int], option: Option) -> str | None:
    names = sorted({zone for _, zone in option.buckets})
    if all(zone in zones for zone in names) and sum(zones[zone] for zone in names) < request.workers:
        return max(names, key=lambda zone: zones[zone])
    return None


def _no_space(cycle: Cycle, request: Request, option: Option) -> Refusal:
    room, ask = cycle.current.fit_cache, option.placement_request
    fits = max_workers(room, ask)
    bare = replace(ask, shape=replace(ask.shape, cpu_milli=0, host_mib=0))
    anywhere = replace(ask, topology=None)
    job = request.job
    start = f"Needs {describe_request(job)}. Queue {job.queue} allows it, but {_only(fits, request.workers)}"
    evidence: tuple[tuple[str, str | int], ...] = (("asked", request.workers), ("available", fits))
    if ask.topology is not None and max_workers(room, anywhere) >= request.workers:
        return Refusal(
            reason=Reason.WAITING_FOR_TOPOLOGY,
            message=f"{start} inside one {ask.topology.level}; spread over several there would be room.",
            evidence=(*evidence, ("level", ask.topology.level)),
        )
    if max_workers(room, bare) >= request.workers:
        return Refusal(
            reason=Reason.WAITING_FOR_CPU_OR_MEMORY,
            message=(
                f"{start}: the GPUs are there, but their nodes lack CPU or memory "
                f"(one worker asks {job.cpu_milli / 1000:g} CPUs and {job.memory_mib} MiB)."
            ),
            evidence=(*evidence, ("cpu_milli", job.cpu_milli), ("memory_mib", job.memory_mib)),
        )
    kept = sorted({kept.job for kept in cycle.reservations.values() if kept is not None})
    ahead = f"; places are kept for {', '.join(kept)}, which comes first" if kept else ""
    return Refusal(
        reason=Reason.WAITING_FOR_GPUS,
        message=f"{start}: {_standing(cycle, option)}{ahead}.",
        evidence=evidence,
    )


def _only(fits: int, workers: int) -> str:
    if workers == 1:
        return "it does not fit now"
    return f"only {fits} of {workers} workers fit now" if fits else f"none of {workers} workers fits now"


def _standing(cycle: Cycle, option: Option) -> str:
    """How the GPUs that could serve stand: `on 2 GPUs 0.8 is taken and 0.2 left`."""
    ledger, inventory, ask = cycle.current.ledger, cycle.inventory, option.placement_request
    memory, compute, allowed = ask.shape.per_kind(inventory)
    kind = inventory.kind
    serve = inventory.usable & allowed[kind] & (kind >= 0) & ask.allowed[:, None]
    left = np.minimum(ledger.free_compute, ledger.free_memory * WHOLE // np.maximum(inventory.memory_mib, 1)).clip(
        min=0
    )
    total = int(serve.sum())
    if ask.shape.whole:
        free = serve & (ledger.holders == 0)
        best = int(free.sum(axis=1).max(initial=0))
        together = f", at most {best} of them on one node" if ask.shape.count > 1 else ""
        return f"{int(free.sum())} of {counted(total, 'GPU')} are free{together}"
    enough = (ledger.free_memory >= memory[kind]) & (ledger.free_compute >= compute[kind])
    fits = cycle.current.fit_cache.shape_fit(ask.shape, ask.tenancy, distinct=ask.distinct).all_fits()
    parts = []
    foreign = int((serve & enough & ~fits).sum())
    for amount, number in sorted(Counter(left[serve & ~enough].tolist()).items(), reverse=True)[:3]:
        taken = (
            f"{format_gpus(WHOLE - amount)} is taken and {format_gpus(amount)} left" if amount else "nothing is left"
        )
        parts.append(f"on {counted(number, 'GPU')} {taken}")
    if foreign:
        parts.append(f"{counted(foreign, 'GPU')} with room {'is' if foreign == 1 else 'are'} not shared with this job")
    return "; ".join(parts) or f"{counted(total, 'GPU')} could serve"
