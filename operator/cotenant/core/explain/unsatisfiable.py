"""What the GPUs that exist could never hold, however long a job waits: class, zone and size. Asked by `refusals`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cotenant.core.allocation.request import Request, options_of
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.formatting import counted, describe_request, describe_worker, format_gpus, format_mib, join_or
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.gang import max_workers
from cotenant.core.placement.shapes import worker_shape


def no_such_gpus(cycle: Cycle, job: Job) -> Refusal | None:
    """No GPU, no such class, no such zone, or none that is large enough for the share: whatever the quota says."""
    inventory = cycle.inventory
    present = sorted({kind.gpu_class for kind in inventory.kinds})
    if not present:
        return Refusal(reason=Reason.NODES_NOT_READY, message="No node with GPUs is known yet.")
    if job.gpu.classes and not set(job.gpu.classes) & set(present):
        return Refusal(
            reason=Reason.CLASS_NOT_FOUND,
            message=f"No GPU of class {join_or(job.gpu.classes)} is in this cluster; there is {', '.join(present)}.",
            evidence=(("asked", join_or(job.gpu.classes)), ("available", ", ".join(present))),
        )
    zones = [zone for zone in inventory.zones if zone]
    if job.gpu.zones and not set(job.gpu.zones) & set(zones):
        return Refusal(
            reason=Reason.ZONE_NOT_FOUND,
            message=f"No node is in zone {join_or(job.gpu.zones)}; there is {', '.join(zones) or 'no zone at all'}.",
            evidence=(("asked", join_or(job.gpu.zones)), ("available", ", ".join(zones))),
        )
    return _too_large(cycle, job)


def _too_large(cycle: Cycle, job: Job) -> Refusal | None:
    shape = worker_shape(job)
    if any(shape.allows(kind) for kind in cycle.inventory.kinds):
        return None
    largest = max(kind for kind in cycle.inventory.kinds if not job.gpu.classes or kind.gpu_class in job.gpu.classes)
    return Refusal(
        reason=Reason.EXCEEDS_CLUSTER,
        message=(
            f"One worker needs {describe_worker(job.gpu)}, more than one GPU has: "
            f"class {largest.gpu_class} has {format_mib(largest.memory_mib)}."
        ),
        evidence=(("metric", "GPU memory"), ("limit", largest.memory_mib), ("asked", shape.memory_mib)),
    )


def exceeds_cluster(cycle: Cycle, request: Request) -> Refusal | None:
    """Exact: on empty nodes, capacities of equal workers simply add up."""
    fits = _on_empty(cycle.empty, request)
    if fits >= request.workers:
        return None
    job = request.job
    everything = cycle.inventory
    if not everything.ready.all():
        everything = everything.patched(replace(node, ready=True) for node in everything.nodes)
    room = FitCache(Ledger(everything), BestFit())
    with_all = _on_empty(room, replace(request, options=options_of(job, everything, cycle.tree)))
    if with_all >= request.workers:
        down = [node.name for node in cycle.inventory.nodes if not node.ready]
        return Refusal(
            reason=Reason.NODES_NOT_READY,
            message=(
                f"Needs {describe_request(job)}; the nodes that are ready hold {fits} of "
                f"{counted(request.workers, 'worker')}. "
                f"Not ready: {', '.join(down[:5])}{' …' if len(down) > 5 else ''}."
            ),
            evidence=(("asked", request.workers), ("available", fits), ("nodes_not_ready", len(down))),
        )
    where = ""
    if job.topology is not None and job.topology.mode == "Required":
        where = f" inside one {job.topology.level}"
    elif job.excluded_nodes:
        where = f" outside the nodes that failed to start it ({', '.join(sorted(job.excluded_nodes))})"
    why = "" if with_all else _bottleneck(everything, job)
    return Refusal(
        reason=Reason.EXCEEDS_CLUSTER,
        message=(
            f"Needs {describe_request(job)}; even an empty cluster holds only {with_all} of "
            f"{counted(request.workers, 'such worker')}{where}{why}."
        ),
        evidence=(("metric", "workers"), ("asked", request.workers), ("limit", with_all)),
    )


def _on_empty(room: FitCache, request: Request) -> int:
    return max((max_workers(room, option.placement_request) for option in request.options), default=0)


def _bottleneck(inventory: Inventory, job: Job) -> str:
    """Which need of one worker no node could ever meet; nothing where it is only their combination."""
    nodes = [node for node in inventory.nodes if node.gpus]
    gpus_needed = job.gpu.count if not job.gpu.is_share else 1
    needs: tuple[tuple[int, int, Callable[[int], str]], ...] = (
        (gpus_needed, max(len(node.gpus) for node in nodes), lambda number: counted(number, "GPU")),
        (job.cpu_milli, max(node.cpu_milli for node in nodes), lambda milli: f"{format_gpus(milli)} CPU"),
        (job.memory_mib, max(node.memory_mib for node in nodes), lambda mib: f"{format_mib(mib)} of memory"),
    )
    for need, there, say in needs:
        if need > there:
            return f": a worker is on one node and asks for {say(need)}, and no node has more than {say(there)}"
    return ""
