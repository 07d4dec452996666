"""Requests that the existing GPUs could never hold, however long a job waits: class, zone and size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import combinations
from typing import Any, Final

from cotenant.core.allocation.request import Request, kinds_of, options_of
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.formatting import (
    counted,
    describe_host_amounts,
    describe_request,
    describe_spread,
    describe_worker,
    format_cpu,
    format_host_memory,
    format_mib,
    format_scratch,
    join_or,
)
from cotenant.core.model.measure import Measure
from cotenant.core.model.objects import Gpu, Job, Node
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.gang import max_workers
from cotenant.core.placement.shapes import chief_of, worker_shape
from cotenant.core.quota.tree import QueueTree

SHOWN_MAX: Final = 3
"""GPUs that are named in a sentence."""
_UNHEALTHY: Final = "unhealthy, or in use by a process outside Cotenant"
_NOT_LISTED: Final = "no longer listed by the agent of the node"
_DELETED: Final = "the node was deleted"


def no_such_gpus(job: Job, inventory: Inventory) -> Refusal | None:
    """No GPU, no such class, no such zone, or none that is large enough for the share: whatever the quota allows."""
    present = sorted({kind.gpu_class for kind in inventory.kinds})
    if not present:
        return Refusal(reason=Reason.NODES_NOT_READY, message="No node with GPUs is known yet.")
    if job.gpu.classes and not set(job.gpu.classes) & set(present):
        return Refusal(
            reason=Reason.CLASS_NOT_FOUND,
            message=f"This cluster has no GPU of class {join_or(job.gpu.classes)}; it has {', '.join(present)}.",
            evidence=(("asked", join_or(job.gpu.classes)), ("available", ", ".join(present))),
        )
    zones = [zone for zone in inventory.zones if zone]
    if job.gpu.zones and not set(job.gpu.zones) & set(zones):
        return Refusal(
            reason=Reason.ZONE_NOT_FOUND,
            message=f"No node is in zone {join_or(job.gpu.zones)}; there is {', '.join(zones) or 'no zone at all'}.",
            evidence=(("asked", join_or(job.gpu.zones)), ("available", ", ".join(zones))),
        )
    if not job.gpu.classes and inventory.default_resource is None:
        return Refusal(
            reason=Reason.CLASS_NOT_FOUND,
            message=(
                "This cluster has devices of several makers and no CUDA GPU: name the class that the program is"
                f" written for (spec.gpu.classes); there is {', '.join(present)}."
            ),
            evidence=(("asked", "any"), ("available", ", ".join(present))),
        )
    return _too_large(job, inventory)


def _too_large(job: Job, inventory: Inventory) -> Refusal | None:
    shape, kinds = worker_shape(job), kinds_of(job.gpu, inventory)
    if any(shape.allows(kind) for kind in kinds):
        return None
    shared = [kind for kind in kinds if not kind.whole_only]
    if not shared:
        classes = join_or(sorted({kind.gpu_class for kind in kinds}))
        return Refusal(
            reason=Reason.CLASS_NOT_SHARED,
            message=(
                f"One worker needs {describe_worker(job.gpu)}, and class {classes} is not shared:"
                " ask for whole devices (spec.gpu.count)."
            ),
            evidence=(("class", classes),),
        )
    largest = max(shared)
    return Refusal(
        reason=Reason.EXCEEDS_CLUSTER,
        message=(
            f"One worker needs {describe_worker(job.gpu)}, more than one GPU has: "
            f"class {largest.gpu_class} has {_mib_beside(largest.memory_mib, shape.memory_mib)}."
        ),
        evidence=(("metric", Measure.MEMORY.value), ("limit", largest.memory_mib), ("asked", shape.memory_mib)),
    )


def exceeds_cluster(request: Request, empty: FitCache, tree: QueueTree) -> Refusal | None:
    """The refusal of a gang that does not fit even on empty nodes. Exact: capacities for equal workers add up. With a
    chief it is exact except for a spread that is Required (`placement.chief`).

    `empty`: the nodes as they would be if no job held anything.
    """
    if any(max_workers(empty, option.placement_request) >= request.workers for option in request.options):
        return None
    fits = _largest_gang(empty, request)
    job = request.job
    inventory = empty.ledger.inventory
    everything = inventory
    if not everything.ready.all():
        everything = everything.patched(replace(node, ready=True) for node in everything.nodes)
    all_ready = FitCache(Ledger(everything), BestFit(), is_empty=True)
    with_all = _largest_gang(all_ready, replace(request, options=options_of(job, everything, tree)))
    if with_all >= request.workers:
        down = [
            f"{node.name} ({node.unready_because})" if node.unready_because else node.name
            for node in inventory.nodes
            if not node.ready
        ]
        return Refusal(
            reason=Reason.NODES_NOT_READY,
            message=(
                f"Needs {describe_request(job)}; the nodes that are ready hold {fits} of "
                f"{counted(request.workers, 'worker')}. "
                f"Not ready: {', '.join(down[:5])}{' …' if len(down) > 5 else ''}."
            ),
            evidence=(("asked", request.workers), ("available", fits), ("nodes_not_ready", len(down))),
        )
    where = _restriction(job) + where_pods_can_run(job)
    why = _ill_gpus(everything, request, tree) or ("" if with_all else _bottleneck(everything, job))
    why = why or _binding_resource(all_ready, request)
    return Refusal(
        reason=Reason.EXCEEDS_CLUSTER,
        message=(
            f"Needs {describe_request(job)}; even an empty cluster holds only {with_all} of "
            f"{counted(request.workers, 'such worker')}{where}{_of_one_class(all_ready, request)}{why}."
            f"{one_node(job)}"
        ),
        evidence=(("metric", "workers"), ("asked", request.workers), ("limit", with_all)),
    )


def amounts_of_chief(job: Job) -> str:
    """Clause with what rank 0 asks for of its node; empty if every worker asks for the same."""
    cpu, memory, scratch = job.chief_amounts
    if (cpu, memory, scratch) == (job.cpu_milli, job.memory_mib, job.scratch_mib):
        return ""
    return f", and {describe_host_amounts(cpu, memory - job.added_memory_mib, scratch)} for the chief"


def added_memory(job: Job) -> str:
    """Clause with the memory that the operator adds to what each rank asks for; empty if it adds none."""
    return (
        f", to which {format_mib(job.added_memory_mib)} for Cotenant's launcher are added"
        if job.added_memory_mib
        else ""
    )


def _restriction(job: Job) -> str:
    """Clause that names where the job must lie; empty if it may lie anywhere."""
    inside = apart = ""
    if job.topology is not None and job.topology.mode == "Required":
        inside = f" inside one {job.topology.level}"
    if job.spread is not None and job.spread.mode == "Required":
        apart = f" with {describe_spread(job.spread)}"
    if inside or apart:
        return inside + apart
    if job.move_asked:
        return " on the nodes that an administrator moves it to"
    if job.excluded_nodes:
        return f" outside the nodes that failed to start it ({', '.join(sorted(job.excluded_nodes))})"
    return ""


def where_pods_can_run(job: Job) -> str:
    """Clause that names the claim, its volume and its place, or the selector; empty where the pods can run anywhere."""
    return f" where its pods can run ({job.volumes.why})" if job.volumes and job.volumes.why else ""


def one_node(job: Job) -> str:
    """Sentence that says why all workers have to be on one node; empty where no claim is the reason."""
    return f" {job.volumes.one_node}" if job.volumes and job.volumes.one_node else ""


def _ill_gpus(everything: Inventory, request: Request, tree: QueueTree) -> str:
    """Clause that names the GPUs that are not handed out, if the gang would fit with them.

    An agent also withholds a GPU that a stranger's process uses; the snapshot does not say which of both it is.
    """
    ill = [(gpu, node) for node in everything.nodes for gpu in node.gpus if not gpu.healthy]
    if not ill:
        return ""
    well = everything.patched(
        replace(node, gpus=tuple(replace(gpu, healthy=True) for gpu in node.gpus)) for node in everything.nodes
    )
    as_well = replace(request, options=options_of(request.job, well, tree))
    fits = _largest_gang(FitCache(Ledger(well), BestFit(), is_empty=True), as_well)
    if fits < request.workers:
        return ""
    shown = ", ".join(f"{gpu.uuid} on {node.name}" for gpu, node in ill[:SHOWN_MAX])
    shown += " …" if len(ill) > SHOWN_MAX else ""
    verb = "is" if len(ill) == 1 else "are"
    why = ", or ".join(sorted({_why_ill(gpu, node) for gpu, node in ill}, reverse=True))
    return f"; it would fit, but {counted(len(ill), 'GPU')} {verb} not handed out ({why}): {shown}"


def _why_ill(gpu: Gpu, node: Node) -> str:
    if gpu.missing_since is None:
        return _UNHEALTHY
    return _DELETED if node.deleted else _NOT_LISTED


def _binding_resource(nodes: FitCache, request: Request) -> str:
    """Clause that names CPU, memory, scratch space or several of them, if the GPUs alone would suffice. `nodes`:
    nothing is held there.
    """
    job = request.job
    amounts = {"cpu": format_cpu(job.cpu_milli), "memory": format_host_memory(job.memory_mib - job.added_memory_mib)}
    if job.scratch_mib or job.chief_scratch_mib:
        amounts["scratch"] = format_scratch(job.scratch_mib)
    for number in range(1, len(amounts) + 1):
        for lacking in combinations(amounts, number):
            if _largest_gang(nodes, _without(request, lacking)) >= request.workers:
                amount = " and ".join(amounts[name] for name in lacking)
                added = added_memory(job) if "memory" in lacking else ""
                each = f"{amount} for each worker{amounts_of_chief(job)}{added}"
                return f": there are enough GPUs, but their nodes do not have {each}; ask for less"
    return ""


def _of_one_class(nodes: FitCache, request: Request) -> str:
    """Clause for a gang that would fit only on GPUs of several classes together: it gets those of one class."""
    if any(not option.gpu_class for option in request.options):
        return ""
    together = sum(_largest_gang(nodes, replace(request, options=(option,))) for option in request.options)
    return " on GPUs of one class, and a gang does not mix classes" if together >= request.workers else ""


_AMOUNTS: Final = {
    "cpu": ("cpu_milli", "chief_cpu_milli"),
    "memory": ("memory_mib", "chief_memory_mib"),
    "scratch": ("scratch_mib", "chief_scratch_mib"),
}
"""What a worker asks for of its node → its names in `Job`."""


def _without(request: Request, lacking: Collection[str]) -> Request:
    """The request of workers that ask for none of these: `cpu`, `memory`, `scratch`."""
    nothing: dict[str, Any] = {name: 0 for one in lacking for name in _AMOUNTS[one]}
    job, options = replace(request.job, **nothing), []
    for option in request.options:
        wanted = option.placement_request
        shape = replace(wanted.shape, cpu_milli=job.cpu_milli, host_mib=job.memory_mib, scratch_mib=job.scratch_mib)
        options.append(replace(option, placement_request=replace(wanted, shape=shape, chief=chief_of(job, shape))))
    return replace(request, options=tuple(options))


def _largest_gang(nodes: FitCache, request: Request) -> int:
    """`nodes`: nothing is held there, so all tenants share one answer."""
    return max((max_workers(nodes, option.placement_request) for option in request.options), default=0)


def _bottleneck(inventory: Inventory, job: Job) -> str:
    """Clause that names what one worker needs and no node has; empty if only the combination is missing."""
    nodes = [node for node in inventory.nodes if node.gpus]
    if all(node.pods < 1 for node in nodes):
        return ": the nodes take no more pods, because pods of others fill them"
    cpu, memory = max(node.cpu_milli for node in nodes), max(node.memory_mib for node in nodes)
    scratch, added, of_chief = max(node.scratch_mib for node in nodes), job.added_memory_mib, job.chief_amounts
    needs = (
        ("a worker", "GPU", job.gpu.count, 0, max(len(node.gpus) for node in nodes)),
        ("a worker", "CPU", job.cpu_milli, 0, cpu),
        ("a worker", "memory", job.memory_mib - added, added, memory),
        ("the chief", "CPU", of_chief[0], 0, cpu),
        ("the chief", "memory", of_chief[1] - added, added, memory),
        ("a worker", "scratch space", job.scratch_mib, 0, scratch),
        ("the chief", "scratch space", of_chief[2], 0, scratch),
    )
    for who, what, asked, more, largest in needs:
        if asked + more > largest:
            beside, most = added_memory(job) if more else "", _amount(what, largest, asked)
            own = _amount(what, asked, asked)
            return f": {who} is on one node and asks for {own}{beside}, and no node has more than {most}"
    return ""


def _amount(what: str, amount: int, asked: int) -> str:
    """An amount, memory in the unit of what is asked for."""
    if what == "GPU":
        return counted(amount, "GPU")
    return format_cpu(amount) if what == "CPU" else f"{_mib_beside(amount, asked)} of {what}"


def _mib_beside(mib: int, asked_mib: int) -> str:
    """Memory in the unit of what is asked for: `79.6 GiB`, rounded down, beside 80 GiB, and `81559 MiB` beside
    81560 MiB.
    """
    return f"{mib * 10 // 1024 / 10:g} GiB" if asked_mib % 1024 == 0 and mib >= 1024 else f"{mib} MiB"
