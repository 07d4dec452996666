"""Reason for which a job that could start has to wait now: quota, GPUs, amounts of the host, topology; the nearest one.

The message also says how full the GPUs in question are, so that a tenant sees the same cluster as the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Option, Request
from cotenant.core.cycle.search import headroom
from cotenant.core.explain.binding_quota import nearest_quota
from cotenant.core.explain.inadmissible import exceeded
from cotenant.core.explain.unsatisfiable import added_memory, amounts_of_chief, one_node, where_pods_can_run
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.formatting import (
    counted,
    describe_host_amounts,
    describe_request,
    describe_spread,
    format_gpus,
    format_instant,
)
from cotenant.core.model.objects import WHOLE, JobKey, Placement, Sharing, TopologyMode
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.gang import max_workers
from cotenant.core.placement.gang_request import PlacementRequest


@dataclass(frozen=True, slots=True)
class Protection:
    """Protection that keeps a request from a place that it would be given."""

    until: float
    """Unix seconds: when the last of the jobs that would leave for it may be evicted."""
    milli: int
    """Milli-GPU of those that may not be evicted yet."""


def explain(current: Occupancy, request: Request, reserved_for: Collection[JobKey]) -> Refusal:
    """The dominant reason: the rule or resource that is nearest to letting the job start.

    `reserved_for`: jobs ahead for which places are kept.
    """
    nearest = nearest_quota(current, request)
    if isinstance(nearest, Option):
        return _no_space(current, request, nearest, reserved_for)
    refusal = exceeded(Reason.WAITING_FOR_QUOTA, request, nearest.option, nearest.limit)
    return replace(refusal, message=f"{refusal.message} {nearest.why}".rstrip(), or_space=nearest.or_space)


def explain_briefly(current: Occupancy, request: Request, _: Collection[JobKey]) -> Refusal:
    """Like `explain`, without message: only what decides if a place is reserved for the request."""
    nearest = nearest_quota(current, request)
    return _NO_SPACE if isinstance(nearest, Option) else replace(_NO_QUOTA, or_space=nearest.or_space)


_NO_SPACE: Final = Refusal(reason=Reason.WAITING_FOR_GPUS, message="")
_NO_QUOTA: Final = Refusal(reason=Reason.WAITING_FOR_QUOTA, message="")


def waiting_for_eviction(placement: Placement) -> Refusal:
    """The place is becoming free, and jobs that hold it were asked to leave."""
    nodes = ", ".join(part.node for part in placement.nodes[:3])
    more = f" and {len(placement.nodes) - 3} more" if len(placement.nodes) > 3 else ""
    return Refusal(
        reason=Reason.WAITING_FOR_EVICTION,
        message=f"Jobs on {nodes}{more} were asked to leave; this job starts when they are gone.",
        evidence=(("nodes", nodes + more),),
    )


def protected(refusal: Refusal, protection: Protection) -> Refusal:
    """The reason, with what protects the jobs that would leave for the request, and until when."""
    until = format_instant(protection.until)
    gpus = format_gpus(protection.milli)
    what, verb = ("GPU", "is") if gpus == "1" else ("GPUs", "are")
    return replace(
        refusal,
        message=(
            f"{refusal.message} {gpus} {what} of jobs that would leave for it {verb} protected until {until}: a job"
            " is not evicted in its protected time. They leave after that, without a change of this job."
        ),
        evidence=(*refusal.evidence, ("protected", gpus), ("protected_until", until)),
    )


def sparing(refusal: Refusal, until: float) -> Refusal:
    """The reason of a job that evicts nobody until then."""
    at = format_instant(until)
    message = (
        f"{refusal.message} Its last attempts never ran (StartBlocked), so no job is evicted for it until {at}, unless"
        " it is edited."
    )
    return replace(refusal, message=message, evidence=(*refusal.evidence, ("evicts_from", at)))


def _no_space(current: Occupancy, request: Request, option: Option, reserved_for: Collection[JobKey]) -> Refusal:
    allowed = headroom(current.usage, request, option, current.lendable_idle())
    nodes, wanted = current.fit_cache, replace(option.placement_request, zone_workers=allowed.zone_workers)
    fits = max_workers(nodes, wanted)
    gpus_alone = replace(wanted, chief=None, shape=replace(wanted.shape, cpu_milli=0, host_mib=0, scratch_mib=0))
    job = request.job
    of_class = f" on class {option.gpu_class}" if option.gpu_class and len(request.options) > 1 else ""
    start = (
        f"Needs {describe_request(job)}. Queue {job.queue} allows it, but {_fitting(fits, request.workers)}{of_class}"
        f"{where_pods_can_run(job)}"
    )
    evidence: tuple[tuple[str, str | int], ...] = (("asked", request.workers), ("available", fits))
    if wanted.topology is not None and max_workers(nodes, replace(wanted, topology=None)) >= request.workers:
        return Refusal(
            reason=Reason.WAITING_FOR_TOPOLOGY,
            message=(
                f"{start} inside one {wanted.topology.level}; spread over several there would be room.{one_node(job)}"
            ),
            evidence=(*evidence, ("level", wanted.topology.level)),
        )
    if wanted.spread is not None and (refusal := _not_so_far_apart(nodes, request, wanted, (start, evidence))):
        return refusal
    if max_workers(nodes, gpus_alone) >= request.workers:
        asked_mib = job.memory_mib - job.added_memory_mib
        lacking = "CPU, memory or scratch space" if job.scratch_mib or job.chief_scratch_mib else "CPU or memory"
        scratch = (("scratch_mib", job.scratch_mib),) if job.scratch_mib else ()
        return Refusal(
            reason=Reason.WAITING_FOR_CPU_OR_MEMORY,
            message=(
                f"{start}: the GPUs are there, but their nodes lack {lacking} (one worker asks"
                f" for {describe_host_amounts(job.cpu_milli, asked_mib, job.scratch_mib)}{amounts_of_chief(job)}"
                f"{added_memory(job)})."
            ),
            evidence=(*evidence, ("cpu_milli", job.cpu_milli), ("memory_mib", asked_mib), *scratch),
        )
    names = ", ".join(sorted(reserved_for))
    ahead = f"; GPUs are reserved for {names}, ahead of this job" if names else ""
    return Refusal(
        reason=Reason.WAITING_FOR_GPUS,
        message=f"{start}: {_gpus_in_question(current, wanted)}{ahead}{_full_of_pods(nodes.ledger)}.",
        evidence=evidence,
    )


def _full_of_pods(ledger: Ledger) -> str:
    """Nodes with free GPUs whose kubelets take no more pods; empty if there are none."""
    inventory, rows = ledger.inventory, np.flatnonzero(ledger.free_pods <= 0)
    free = ((ledger.free_compute[rows] > 0) & inventory.usable[rows]).any(axis=1)
    full = [inventory.nodes[row].name for row in rows[free].tolist()]
    if not full:
        return ""
    shown = ", ".join(full[:_SHOWN_MAX]) + (" …" if len(full) > _SHOWN_MAX else "")
    return f"; {shown} {'takes' if len(full) == 1 else 'take'} no more pods"


_SHOWN_MAX = 5


def _not_so_far_apart(
    nodes: FitCache, request: Request, wanted: PlacementRequest, said: tuple[str, tuple[tuple[str, str | int], ...]]
) -> Refusal | None:
    """The refusal if there is room, but only closer together than the spread allows; else None."""
    spread, topology = wanted.spread, wanted.topology
    if spread is None or spread.mode is TopologyMode.PREFERRED:
        return None
    start, evidence = said
    inside = ""
    if max_workers(nodes, replace(wanted, spread=None)) < request.workers:
        if topology is None or max_workers(nodes, replace(wanted, spread=None, topology=None)) < request.workers:
            return None
        inside = f" inside one {topology.level}"
    return Refusal(
        reason=Reason.WAITING_FOR_SPREAD,
        message=f"{start}{inside} with {describe_spread(spread)}; otherwise there would be room.",
        evidence=(*evidence, ("level", spread.level), ("max_workers", spread.most)),
    )


def _fitting(fits: int, workers: int) -> str:
    if workers == 1:
        return "it does not fit now"
    return f"only {fits} of {workers} workers fit now" if fits else f"none of {workers} workers fits now"


def _why_unshared(wanted: PlacementRequest) -> str:
    sharing = wanted.tenancy.sharing
    if sharing is Sharing.NEVER:
        return "it asks for sharing: Never"
    if sharing is Sharing.QUEUE:
        return "a job on it is of another queue, or asks for sharing: Never"
    return "a job on it does not ask for sharing: Any, or the node is not shared by queues"


def _gpus_in_question(current: Occupancy, wanted: PlacementRequest) -> str:
    """State of the GPUs that could serve: `on 2 GPUs 0.8 is taken and 0.2 left`."""
    ledger, inventory = current.ledger, current.inventory
    rows = wanted.rows
    _, _, allowed = wanted.shape.per_kind(inventory)
    kind = inventory.kind[rows]
    serve = inventory.usable[rows] & allowed[kind] & (kind >= 0)
    enough = current.fit_cache.room(wanted.shape)[rows]
    total = int(np.count_nonzero(serve))
    if wanted.shape.whole:
        free = serve & enough
        best = int(np.count_nonzero(free, axis=1).max(initial=0))
        together = f", at most {best} of them on one node" if wanted.shape.count > 1 else ""
        return f"{np.count_nonzero(free)} of {counted(total, 'GPU')} are free{together}"
    fits = current.fit_cache.shape_fit(wanted.shape, wanted.tenancy, distinct=wanted.distinct).all_fits()[rows]
    parts = []
    foreign = int(np.count_nonzero(serve & enough & ~fits))
    short = serve & ~enough
    of_memory = ledger.free_memory[rows][short] * WHOLE // np.maximum(inventory.memory_mib[rows][short], 1)
    left = np.bincount(np.minimum(ledger.free_compute[rows][short], of_memory).clip(min=0))
    for amount, number in ((amount, int(left[amount])) for amount in np.flatnonzero(left)[::-1][:3].tolist()):
        taken = (
            f"{format_gpus(WHOLE - amount)} is taken and {format_gpus(amount)} left" if amount else "nothing is left"
        )
        parts.append(f"on {counted(number, 'GPU')} {taken}")
    if wanted.shape.count > 1:
        best = int(np.count_nonzero(fits, axis=1).max(initial=0))
        parts.append(f"at most {counted(best, 'GPU')} of one node would fit")
    if foreign:
        verb = "is" if foreign == 1 else "are"
        parts.append(f"{counted(foreign, 'GPU')} with room {verb} not shared with this job ({_why_unshared(wanted)})")
    return "; ".join(parts) or f"{counted(total, 'GPU')} could serve"
