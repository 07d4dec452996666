"""When a waiting job will start, and the smallest change that would start it now: both through the scheduler's trial.

Start: running jobs are released in the order in which they end (start + expected runtime, or maximum runtime), those
ahead in the line keep the places that they will get, and the first moment at which the whole gang fits is the estimate.
Jobs that never said how long they run are taken to run for ever, so an estimate is late rather than early, or absent.
Change: fewer workers, a smaller share, another class, a softer topology, a higher limit; each is tried, not guessed.
Bounded: `Policy.forecasts` kinds of request per cycle and the next `_HORIZON` endings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from cotenant.core.allocation.allocation import Allocation, AllocationBatch
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request, options_of
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import PlacementResult
from cotenant.core.model.formatting import counted, format_gpus, format_mib
from cotenant.core.model.objects import Job, JobKey, TopologyMode
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement.gang import PlacementRequest, max_workers
from cotenant.core.placement.shapes import Shape

_HORIZON = 512
Ending: TypeAlias = tuple[float, JobKey, Allocation]
_FOR_ROOM = frozenset(
    {Reason.WAITING_FOR_GPUS, Reason.WAITING_FOR_CPU_OR_MEMORY, Reason.WAITING_FOR_TOPOLOGY, Reason.WAITING_FOR_QUOTA}
)


@dataclass(frozen=True, slots=True, eq=False)
class _Reserved:
    """A job ahead in the line: starts after so many endings."""

    endings: int
    found: PlacementResult


def forecast(cycle: Cycle) -> None:
    """Complete the refusals of the first kinds of request in the line."""
    wanted = [request for request, refusal in cycle.refused.items() if refusal.reason in _FOR_ROOM]
    wanted = wanted[: cycle.policy.forecasts]
    if not wanted:
        return
    ends = _endings(cycle)
    endings = AllocationBatch([holding for _, _, holding in ends])
    reserved: list[_Reserved] = []
    for request in wanted:
        count = _first_fit(cycle, request, endings, reserved) if ends else None
        cycle.refused[request] = replace(
            cycle.refused[request],
            estimated_start_at=None if count is None else max(cycle.snapshot.now, ends[count - 1][0]),
            would_start_if=_smallest_change(cycle, request, cycle.refused[request]),
        )


def start_of(cycle: Cycle, request: Request) -> tuple[float, PlacementResult] | None:
    """When and where the gang could start, if nobody else came."""
    ends = _endings(cycle)
    reserved: list[_Reserved] = []
    count = _first_fit(cycle, request, AllocationBatch([holding for _, _, holding in ends]), reserved) if ends else None
    return None if count is None else (max(cycle.snapshot.now, ends[count - 1][0]), reserved[0].found)


def _endings(cycle: Cycle) -> list[Ending]:
    """Who ends when, soonest first, as far as that is known and not yet over; those that start now included."""
    now, found = cycle.snapshot.now, []
    for job in cycle.running.values():
        if job.evicting or job.key in cycle.evicted or job.resizing_from is not None or job.key in cycle.resized:
            continue
        end = ends_at(job, now)
        if end is not None:
            found.append((end, job.key, cycle.allocation_of(job)))
    for job, holding in cycle.started:
        end = ends_at(replace(job, admitted_at=now), now)
        if end is not None:
            found.append((end, job.key, holding))
    return sorted(found, key=lambda ending: ending[:2])[:_HORIZON]


def ends_at(job: Job, now: float) -> float | None:
    """The expected end; the latest possible one when the job is already over its expectation."""
    if job.admitted_at is None:
        return None
    for seconds in (job.expected_runtime_s, job.max_runtime_s):
        if seconds is not None and job.admitted_at + seconds > now:
            return job.admitted_at + seconds
    return None


def _first_fit(cycle: Cycle, request: Request, endings: AllocationBatch, reserved: list[_Reserved]) -> int | None:
    """Endings after which the gang fits; its place is added to what is reserved."""
    books = cycle.after_evictions or cycle.current

    def fits(count: int) -> bool:
        with _at(books, endings, reserved, count):
            return cycle.fits(books, request)

    low, high = 0, 1
    while high < len(endings) and not fits(high):
        low, high = high, high * 2
    high = min(high, len(endings))
    if not fits(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    with _at(books, endings, reserved, high):
        found = cycle.find(books, request, request.workers)
    if found is None:
        return None
    reserved.append(_Reserved(high, found))
    return high


class _at:  # noqa: N801 - reads as a preposition: with _at(books, …)
    """The books after so many endings, with those ahead in the line at their places."""

    def __init__(self, books: Occupancy, endings: AllocationBatch, reserved: list[_Reserved], count: int) -> None:
        self._trial = books.trial()
        self._books, self._endings, self._reserved, self._count = books, endings, reserved, count

    def __enter__(self) -> None:
        self._trial.__enter__()
        self._books.release_batch(self._endings, 0, self._count)
        for ahead in self._reserved:
            if ahead.endings <= self._count:
                self._books.allocate(ahead.found.allocation)

    def __exit__(self, *_: object) -> None:
        self._trial.__exit__(None, None, None)


def _smallest_change(cycle: Cycle, request: Request, refusal: Refusal) -> str:
    """The first change in this order that would start the job at once."""
    if refusal.reason is Reason.WAITING_FOR_QUOTA:
        return _more_quota(cycle, request, refusal)
    for change in (_softer_topology, _other_class, _fewer_workers, _smaller_share, _ranks_together):
        text = change(cycle, request)
        if text:
            return text
    return ""


def _more_quota(cycle: Cycle, request: Request, refusal: Refusal) -> str:
    if all(
        max_workers(cycle.current.fit_cache, option.placement_request) < request.workers for option in request.options
    ):
        return ""
    facts = dict(refusal.evidence)
    missing = int(facts["asked"]) - int(facts["available"])
    amount = format_mib(missing) if facts["metric"] == "GPU memory" else f"{format_gpus(missing)} GPU"
    return f"{facts['scope']} had {amount} more"


def _fits(cycle: Cycle, request: Request, change: Callable[[PlacementRequest], PlacementRequest]) -> bool:
    """The queue allows the gang (asked before), and the changed ask has room for it."""
    changed = replace(
        request,
        options=tuple(
            replace(option, placement_request=change(option.placement_request)) for option in request.options
        ),
        guarantee_terms={},
    )
    return cycle.fits(cycle.current, changed)


def _softer_topology(cycle: Cycle, request: Request) -> str:
    topology = request.job.topology
    if topology is None or topology.mode is not TopologyMode.REQUIRED:
        return ""
    soft = _fits(cycle, request, lambda ask: replace(ask, topology=None))
    return f"its topology {topology.level} were Preferred instead of Required" if soft else ""


def _other_class(cycle: Cycle, request: Request) -> str:
    job = request.job
    if not job.gpu.classes:
        return ""
    others = {kind.gpu_class for kind in cycle.inventory.kinds} - set(job.gpu.classes)
    for name in sorted(others):
        wider = replace(job, gpu=replace(job.gpu, classes=(name,)))
        other = replace(request, options=options_of(wider, cycle.inventory, cycle.tree), guarantee_terms={})
        if cycle.fits(cycle.current, other):
            return f"it also allowed class {name}"
    return ""


def _fewer_workers(cycle: Cycle, request: Request) -> str:
    fits = max(
        (max_workers(cycle.current.fit_cache, option.placement_request) for option in request.options), default=0
    )
    return f"it asked for {counted(fits, 'worker')}" if 0 < fits < request.workers else ""


def _smaller_share(cycle: Cycle, request: Request) -> str:
    shape = request.options[0].placement_request.shape
    if shape.whole or shape.compute_milli:
        return ""
    field, full = ("memory_mib", shape.memory_mib) if shape.memory_mib else ("memory_milli", shape.memory_milli)
    step = 256 if field == "memory_mib" else 10

    def shrunk(ask: PlacementRequest, size: int) -> PlacementRequest:
        small: Shape = replace(
            ask.shape,
            memory_mib=size if field == "memory_mib" else 0,
            memory_milli=size if field == "memory_milli" else 0,
        )
        return replace(ask, shape=small)

    low, high = 0, -(-full // step)
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(cycle, request, lambda ask, size=middle * step: shrunk(ask, size)):  # type: ignore[misc]
            low = middle
        else:
            high = middle
    if not low:
        return ""
    largest = format_mib(low * step) if field == "memory_mib" else f"{format_gpus(low * step)} GPU"
    return f"its share were at most {largest}"


def _ranks_together(cycle: Cycle, request: Request) -> str:
    if not request.job.distinct_gpus or request.workers == 1 or not request.job.gpu.is_share:
        return ""
    together = _fits(cycle, request, lambda ask: replace(ask, distinct=False))
    return "its ranks may share a GPU (collective: gloo)" if together else ""
