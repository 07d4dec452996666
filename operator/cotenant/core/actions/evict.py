"""Making room: a smallest set of victims that lets one job start, proven on the books before anybody is asked to leave.

Search, per order of victims: release one after the other in doubling steps until the job fits (releasing more never
hurts, so the shortest sufficient prefix is found by bisection); place the job; then give back, dearest first, every
victim whose own GPUs are still free. What remains is minimal: no single victim of it could stay. Two orders are tried:
by lost work, and node by node with the cheapest node first; the one that loses less work wins. Surplus of elastic jobs
alone is tried first. If all candidates together do not suffice, nothing happens: no eviction is ever issued in vain.

After Kueue's minimal preemption sets and KAI-Scheduler's scenario solver; here the answer "impossible" is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from cotenant.core.actions.victims import candidates, not_yet_evicted
from cotenant.core.allocation.allocation import AllocationBatch
from cotenant.core.allocation.eviction_candidate import EvictionCandidate
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import PlacementResult
from cotenant.core.model.formatting import counted, format_gpus
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Evict, EvictionKind, Resize
from cotenant.core.queueing.fair_share import held_within_guarantee


@dataclass(frozen=True, slots=True, eq=False)
class VictimSet:
    """Victims and the place that they make."""

    candidates: tuple[EvictionCandidate, ...]
    found: PlacementResult

    @property
    def cost(self) -> tuple[int, int]:
        return sum(unit.lost_work for unit in self.candidates), len(self.candidates)


def find_victims(cycle: Cycle, job: Job, request: Request) -> PlacementResult | None:
    """Ask the cheapest sufficient victims to leave and hold the place for the job; None where nobody can or may."""
    known = candidates(cycle, request)
    best: VictimSet | None = None
    for stage in (known.whole[:0], known.whole):
        if best is None and (known.surplus or stage):
            orders = [[*known.surplus, *stage]]
            if stage and request.workers * request.job.gpu.count > 1:
                orders.append([*known.surplus, *_by_node(stage)])
            tried = [sacrifice for order in orders if (sacrifice := _search(cycle, request, order)) is not None]
            best = min(tried, key=lambda sacrifice: sacrifice.cost, default=None)
    if best is None:
        return None
    _apply(cycle, job, best)
    return best.found


def _search(cycle: Cycle, request: Request, units: Sequence[EvictionCandidate]) -> VictimSet | None:
    books = cycle.open_later()
    with books.trial():
        prefix, bulk = _shortest_prefix(cycle, books, request, not_yet_evicted(cycle, units))
        found = cycle.find(books, request, request.workers) if prefix else None
        if found is None:
            return None
        books.allocate(found.allocation)
        needed = _fill_back(books, prefix, bulk, found)
        if not _reclaim_allowed(cycle, books, request, found, needed):
            return None
        return VictimSet(tuple(needed), found)


def _shortest_prefix(
    cycle: Cycle, books: Occupancy, request: Request, units: Iterator[EvictionCandidate]
) -> tuple[list[EvictionCandidate], AllocationBatch]:
    """Fewest units from the front after whose release the job fits, released on return; none where all do not help."""
    tried: list[EvictionCandidate] = []
    bulk = AllocationBatch()
    while True:
        stretch = list(islice(units, max(1, len(tried))))
        if not stretch:
            return [], bulk
        low, mark = len(tried), books.mark
        tried += stretch
        bulk.extend(unit.allocation for unit in stretch)
        books.release_batch(bulk, low, len(bulk))
        if cycle.fits(books, request):
            break
    high = len(bulk)
    while high - low > 1:
        books.roll_back(mark)
        middle = (low + high) // 2
        books.release_batch(bulk, low, middle)
        if cycle.fits(books, request):
            high = middle
        else:
            low, mark = middle, books.mark
    books.roll_back(mark)
    books.release_batch(bulk, low, high)
    return tried[:high], bulk


def _fill_back(
    books: Occupancy, units: Sequence[EvictionCandidate], bulk: AllocationBatch, found: PlacementResult
) -> list[EvictionCandidate]:
    """Who has to leave after all; the others are held again. Surplus never stays where its job's minimum leaves, and
    nobody stays on what other queues would then have to lend to the job that comes."""
    needed: list[EvictionCandidate] = []
    leaving: set[JobKey] = set()
    blocked = bulk.blocked(books.ledger).tolist()
    for index in reversed(range(len(units))):
        unit = units[index]
        stays = not blocked[index] and unit.job.key not in leaving
        if stays and books.fits(unit.allocation, whole=not unit.job.gpu.is_share):
            books.allocate(unit.allocation)
            if _still_lent(books, found):
                continue
            books.release(unit.allocation)
        needed.append(unit)
        if unit.rank is None:
            leaving.add(unit.job.key)
    return needed


def _still_lent(books: Occupancy, found: PlacementResult) -> bool:
    if not books.usage.tree.limits_lending:
        return True
    with books.trial():
        books.release(found.allocation)
        return books.within_lending_limits(found.allocation)


def _reclaim_allowed(
    cycle: Cycle, books: Occupancy, request: Request, found: PlacementResult, units: Sequence[EvictionCandidate]
) -> bool:
    """With the real placement held, every queue in whose name something is reclaimed is inside its guarantee."""
    reclaimed = {unit.job.queue for unit in units if unit.kind is EvictionKind.RECLAIMED and unit.rank is None}
    forks = {cycle.tree.below_common_ancestor(request.queue, cycle.tree.index[queue]) for queue in reclaimed}
    return all(
        fork is not None and held_within_guarantee(books.usage, fork[0], found.allocation.charge) for fork in forks
    )


def _by_node(units: Sequence[EvictionCandidate]) -> list[EvictionCandidate]:
    """Node by node, the node first whose GPUs cost the least work per milli-GPU; on a node in the given order."""
    lost: dict[int, int] = {}
    milli: dict[int, int] = {}
    first: dict[int, list[EvictionCandidate]] = {}
    for unit in units:
        for take in unit.allocation.nodes:
            lost[take.row] = lost.get(take.row, 0) + unit.lost_work
            milli[take.row] = milli.get(take.row, 0) + sum(take.compute_milli)
            first.setdefault(take.row, []).append(unit)
    ordered: dict[int, EvictionCandidate] = {}
    for row in sorted(first, key=lambda row: (lost[row] * 1000 // max(1, milli[row]), -milli[row], row)):
        for unit in first[row]:
            ordered.setdefault(id(unit), unit)
    return list(ordered.values())


def _apply(cycle: Cycle, job: Job, sacrifice: VictimSet) -> None:
    bulk = AllocationBatch([unit.allocation for unit in sacrifice.candidates])
    cycle.open_later().release_batch(bulk, 0, len(bulk))
    for unit in sacrifice.candidates:
        if unit.rank is None:
            why = _why(cycle, job, unit)
            cycle.evicted[unit.job.key] = Evict(job=unit.job.key, kind=unit.kind, in_favour_of=job.key, message=why)
        else:
            cycle.shrunk[unit.job.key] = cycle.shrunk.get(unit.job.key, frozenset()) | {unit.rank}
    for unit in sacrifice.candidates:
        gone = cycle.shrunk.get(unit.job.key, frozenset())
        if unit.job.key in cycle.evicted:
            cycle.resized.pop(unit.job.key, None)
        elif gone:
            cycle.resized[unit.job.key] = Resize(
                job=unit.job.key,
                placement=cycle.shrunk_placement(unit.job),
                message=f"Gives back {counted(len(gone), 'surplus worker')} so that {job.key} can start.",
            )
    cycle.nominate(job.key, sacrifice.found)


def _why(cycle: Cycle, job: Job, unit: EvictionCandidate) -> str:
    if unit.kind is EvictionKind.PREEMPTED:
        higher = f"priority {job.priority} above {unit.job.priority}"
        return f"Makes room for {job.key}, which has {higher} in queue {job.queue}."
    milli = format_gpus(unit.allocation.charge.milli)
    return f"Queue {unit.job.queue} had borrowed these {milli} GPU; queue {job.queue} needs them back for {job.key}."
