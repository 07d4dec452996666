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

from cotenant.core.actions.victims import candidates, still_there
from cotenant.core.allocation.allocation import Bulk
from cotenant.core.allocation.books import Books
from cotenant.core.allocation.eviction_candidate import Unit
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import Found
from cotenant.core.model.formatting import counted, gpus
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Evict, EvictionKind, Resize
from cotenant.core.queueing.fair_share import held_entitled


@dataclass(frozen=True, slots=True, eq=False)
class Sacrifice:
    """Victims and the place that they make."""

    units: tuple[Unit, ...]
    found: Found

    @property
    def cost(self) -> tuple[int, int]:
        return sum(unit.lost for unit in self.units), len(self.units)


def make_room(cycle: Cycle, job: Job, request: Request) -> Found | None:
    """Ask the cheapest sufficient victims to leave and hold the place for the job; None where nobody can or may."""
    known = candidates(cycle, request)
    best: Sacrifice | None = None
    for stage in (known.whole[:0], known.whole):
        if best is None and (known.surplus or stage):
            orders = [[*known.surplus, *stage]]
            if stage and request.workers * request.job.gpu.count > 1:
                orders.append([*known.surplus, *_by_node(stage)])
            tried = [sacrifice for order in orders if (sacrifice := _search(cycle, request, order)) is not None]
            best = min(tried, key=lambda sacrifice: sacrifice.cost, default=None)
    if best is None:
        return None
    _carry_out(cycle, job, best)
    return best.found


def _search(cycle: Cycle, request: Request, units: Sequence[Unit]) -> Sacrifice | None:
    books = cycle.open_later()
    with books.trial():
        prefix, bulk = _shortest_prefix(cycle, books, request, still_there(cycle, units))
        found = cycle.find(books, request, request.workers) if prefix else None
        if found is None:
            return None
        books.hold(found.holding)
        needed = _needed(books, prefix, bulk, found)
        if not _justified(cycle, books, request, found, needed):
            return None
        return Sacrifice(tuple(needed), found)


def _shortest_prefix(cycle: Cycle, books: Books, request: Request, units: Iterator[Unit]) -> tuple[list[Unit], Bulk]:
    """Fewest units from the front after whose release the job fits, released on return; none where all do not help."""
    tried: list[Unit] = []
    bulk = Bulk()
    while True:
        stretch = list(islice(units, max(1, len(tried))))
        if not stretch:
            return [], bulk
        low, mark = len(tried), books.mark
        tried += stretch
        bulk.extend(unit.holding for unit in stretch)
        books.release_many(bulk, low, len(bulk))
        if cycle.fits(books, request):
            break
    high = len(bulk)
    while high - low > 1:
        books.back_to(mark)
        middle = (low + high) // 2
        books.release_many(bulk, low, middle)
        if cycle.fits(books, request):
            high = middle
        else:
            low, mark = middle, books.mark
    books.back_to(mark)
    books.release_many(bulk, low, high)
    return tried[:high], bulk


def _needed(books: Books, units: Sequence[Unit], bulk: Bulk, found: Found) -> list[Unit]:
    """Who has to leave after all; the others are held again. Surplus never stays where its job's minimum leaves, and
    nobody stays on what other queues would then have to lend to the job that comes."""
    needed: list[Unit] = []
    leaving: set[JobKey] = set()
    blocked = bulk.blocked(books.ledger).tolist()
    for index in reversed(range(len(units))):
        unit = units[index]
        stays = not blocked[index] and unit.job.key not in leaving
        if stays and books.fits(unit.holding, whole=not unit.job.gpu.is_share):
            books.hold(unit.holding)
            if _still_lent(books, found):
                continue
            books.release(unit.holding)
        needed.append(unit)
        if unit.rank is None:
            leaving.add(unit.job.key)
    return needed


def _still_lent(books: Books, found: Found) -> bool:
    if not books.usage.tree.holds_back:
        return True
    with books.trial():
        books.release(found.holding)
        return books.lends(found.holding)


def _justified(cycle: Cycle, books: Books, request: Request, found: Found, units: Sequence[Unit]) -> bool:
    """With the real placement held, every queue in whose name something is reclaimed is inside its guarantee."""
    reclaimed = {unit.job.queue for unit in units if unit.kind is EvictionKind.RECLAIMED and unit.rank is None}
    forks = {cycle.tree.fork(request.queue, cycle.tree.number[queue]) for queue in reclaimed}
    return all(fork is not None and held_entitled(books.usage, fork[0], found.holding.charge) for fork in forks)


def _by_node(units: Sequence[Unit]) -> list[Unit]:
    """Node by node, the node first whose GPUs cost the least work per milli-GPU; on a node in the given order."""
    lost: dict[int, int] = {}
    milli: dict[int, int] = {}
    first: dict[int, list[Unit]] = {}
    for unit in units:
        for take in unit.holding.takes:
            lost[take.row] = lost.get(take.row, 0) + unit.lost
            milli[take.row] = milli.get(take.row, 0) + sum(take.compute)
            first.setdefault(take.row, []).append(unit)
    ordered: dict[int, Unit] = {}
    for row in sorted(first, key=lambda row: (lost[row] * 1000 // max(1, milli[row]), -milli[row], row)):
        for unit in first[row]:
            ordered.setdefault(id(unit), unit)
    return list(ordered.values())


def _carry_out(cycle: Cycle, job: Job, sacrifice: Sacrifice) -> None:
    bulk = Bulk([unit.holding for unit in sacrifice.units])
    cycle.open_later().release_many(bulk, 0, len(bulk))
    for unit in sacrifice.units:
        if unit.rank is None:
            why = _why(cycle, job, unit)
            cycle.evicted[unit.job.key] = Evict(job=unit.job.key, kind=unit.kind, in_favour_of=job.key, message=why)
        else:
            cycle.shrunk[unit.job.key] = cycle.shrunk.get(unit.job.key, frozenset()) | {unit.rank}
    for unit in sacrifice.units:
        gone = cycle.shrunk.get(unit.job.key, frozenset())
        if unit.job.key in cycle.evicted:
            cycle.resized.pop(unit.job.key, None)
        elif gone:
            cycle.resized[unit.job.key] = Resize(
                job=unit.job.key,
                placement=cycle.shrunk_placement(unit.job),
                message=f"Gives back {counted(len(gone), 'surplus worker')} so that {job.key} can start.",
            )
    cycle.promise(job.key, sacrifice.found)


def _why(cycle: Cycle, job: Job, unit: Unit) -> str:
    if unit.kind is EvictionKind.PREEMPTED:
        higher = f"priority {job.priority} above {unit.job.priority}"
        return f"Makes room for {job.key}, which has {higher} in queue {job.queue}."
    milli = gpus(unit.holding.charge.milli)
    return f"Queue {unit.job.queue} had borrowed these {milli} GPU; queue {job.queue} needs them back for {job.key}."
