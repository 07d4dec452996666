"""The smallest change of a waiting job, or of its quota, that would start it now. Each change is tried, not guessed.

In this order: a softer topology, another class, fewer workers, a smaller share, ranks that share a GPU; a higher limit
where quota is what lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request, options_of
from cotenant.core.cycle.gallop import first_true
from cotenant.core.cycle.search import fits
from cotenant.core.model.formatting import counted, format_gpus, format_mib
from cotenant.core.model.objects import TopologyMode
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement.gang import PlacementRequest, max_workers

_MIB_STEP = 256
_MILLI_STEP = 10


def smallest_change(current: Occupancy, request: Request, refusal: Refusal) -> str:
    """The first change in the order above that would start the job at once; empty where none would."""
    if refusal.reason is Reason.WAITING_FOR_QUOTA:
        return _more_quota(current, request, refusal)
    for change in (_softer_topology, _other_class, _fewer_workers, _smaller_share, _ranks_together):
        text = change(current, request)
        if text:
            return text
    return ""


def _more_quota(current: Occupancy, request: Request, refusal: Refusal) -> str:
    if _largest_gang(current, request) < request.workers:
        return ""
    facts = dict(refusal.evidence)
    missing = int(facts["asked"]) - int(facts["available"])
    amount = format_mib(missing) if facts["metric"] == "GPU memory" else f"{format_gpus(missing)} GPU"
    return f"{facts['scope']} had {amount} more"


def _softer_topology(current: Occupancy, request: Request) -> str:
    topology = request.job.topology
    if topology is None or topology.mode is not TopologyMode.REQUIRED:
        return ""
    soft = _fits_changed(current, request, lambda wanted: replace(wanted, topology=None))
    return f"its topology {topology.level} were Preferred instead of Required" if soft else ""


def _other_class(current: Occupancy, request: Request) -> str:
    job = request.job
    if not job.gpu.classes:
        return ""
    others = {kind.gpu_class for kind in current.inventory.kinds} - set(job.gpu.classes)
    for name in sorted(others):
        wider = replace(job, gpu=replace(job.gpu, classes=(name,)))
        other = replace(request, options=options_of(wider, current.inventory, current.tree), guarantee_terms={})
        if fits(current, other):
            return f"it also allowed class {name}"
    return ""


def _fewer_workers(current: Occupancy, request: Request) -> str:
    largest = _largest_gang(current, request)
    return f"it asked for {counted(largest, 'worker')}" if 0 < largest < request.workers else ""


def _smaller_share(current: Occupancy, request: Request) -> str:
    shape = request.options[0].placement_request.shape
    if shape.whole or shape.compute_milli:
        return ""
    in_mib = shape.memory_mib > 0
    asked, step = (shape.memory_mib, _MIB_STEP) if in_mib else (shape.memory_milli, _MILLI_STEP)

    def shrunk(wanted: PlacementRequest, size: int) -> PlacementRequest:
        mib, milli = (size, 0) if in_mib else (0, size)
        return replace(wanted, shape=replace(wanted.shape, memory_mib=mib, memory_milli=milli))

    def is_too_large(steps: int) -> bool:
        return not _fits_changed(current, request, lambda wanted: shrunk(wanted, steps * step))

    largest = (first_true(0, -(-asked // step), is_too_large) - 1) * step
    if largest <= 0:
        return ""
    return f"its share were at most {format_mib(largest) if in_mib else f'{format_gpus(largest)} GPU'}"


def _ranks_together(current: Occupancy, request: Request) -> str:
    if not request.job.distinct_gpus or request.workers == 1 or not request.job.gpu.is_share:
        return ""
    together = _fits_changed(current, request, lambda wanted: replace(wanted, distinct=False))
    return "its ranks may share a GPU (collective: gloo)" if together else ""


def _largest_gang(current: Occupancy, request: Request) -> int:
    return max((max_workers(current.fit_cache, option.placement_request) for option in request.options), default=0)


def _fits_changed(current: Occupancy, request: Request, change: Callable[[PlacementRequest], PlacementRequest]) -> bool:
    """The queue allows the gang, and the changed request fits as well."""
    options = tuple(replace(option, placement_request=change(option.placement_request)) for option in request.options)
    return fits(current, replace(request, options=options, guarantee_terms={}))
