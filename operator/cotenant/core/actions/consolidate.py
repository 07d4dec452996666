"""Moving small jobs aside (evict → resume from the checkpoint elsewhere) for a job that cannot start otherwise.

Only jobs of queues that opted in move, at most `Policy.moves` per cycle, only from one node per beneficiary, and only
if every one of them has a new place in the same trial and the work that they lose is less than the wait that it saves:
    Σ lost work of the moved  <  milli-GPU of the beneficiary × (estimated start − now)
Where no start can be estimated the wait has no bound, and the move is worth it. Nobody loses a place for good.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.core.actions.victims import lost_work, protected
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import PlacementResult
from cotenant.core.explain.inadmissible import resolve
from cotenant.core.explain.pending_reason import waiting_for_eviction
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Evict, EvictionKind, Reason, Refusal

_FOR_ROOM = frozenset({Reason.WAITING_FOR_GPUS, Reason.WAITING_FOR_CPU_OR_MEMORY})


def consolidate(cycle: Cycle) -> None:
    """The first waiting jobs for which moving others is enough and worth it."""
    left = cycle.policy.moves
    movable = _movable(cycle) if left else {}
    if not movable:
        return
    for job in _waiting_for_room(cycle):
        if not left:
            return
        moved = _make_way(cycle, job, movable, left)
        left -= len(moved)
        for row in movable:
            movable[row] = [other for other in movable[row] if other.key not in moved]


def _waiting_for_room(cycle: Cycle) -> list[Job]:
    """One waiting job per kind of request, in the order of the line."""
    first: dict[Request, Job] = {}
    for job in cycle.waiting:
        request = cycle.asked[job.key]
        if cycle.refused[request].reason in _FOR_ROOM:
            first.setdefault(request, job)
    return list(first.values())[: cycle.policy.forecasts]


def _movable(cycle: Cycle) -> dict[int, list[Job]]:
    """Row → jobs that lie on it alone and may move, least lost work first."""
    rows: dict[int, list[Job]] = {}
    for job in cycle.running.values():
        number = cycle.tree.index.get(job.queue)
        if number is None or not cycle.tree.queues[number].consolidation or not job.preemptible:
            continue
        untouched = not job.evicting and job.resizing_from is None and job.key not in cycle.evicted
        takes = cycle.allocation_of(job).nodes
        if untouched and job.key not in cycle.resized and len(takes) == 1 and not protected(cycle, job):
            rows.setdefault(takes[0].row, []).append(job)
    for jobs in rows.values():
        jobs.sort(key=lambda job: (_lost(cycle, job), job.key))
    return rows


def _lost(cycle: Cycle, job: Job) -> int:
    return lost_work(cycle, job, cycle.allocation_of(job).charge.milli)


def _make_way(cycle: Cycle, job: Job, movable: dict[int, list[Job]], most: int) -> set[JobKey]:
    request = cycle.asked[job.key]
    ordered = sorted(movable, key=lambda row: (sum(_lost(cycle, other) for other in movable[row][:most]), row))
    for row in ordered:
        for count in range(1, min(most, len(movable[row])) + 1):
            moving = movable[row][:count]
            if not _worth(cycle, job, moving):
                break
            places = _places(cycle, request, moving)
            if places is not None:
                _carry_out(cycle, job, moving, places)
                return {other.key for other in moving}
    return set()


def _worth(cycle: Cycle, job: Job, moving: Sequence[Job]) -> bool:
    request = cycle.asked[job.key]
    start = cycle.refused[request].estimated_start_at
    if start is None:
        return True
    milli = request.workers * request.options[0].milli
    return sum(_lost(cycle, other) for other in moving) < milli * int(start - cycle.snapshot.now)


def _places(cycle: Cycle, request: Request, moving: Sequence[Job]) -> list[PlacementResult] | None:
    """Places for the beneficiary and for everybody who moves, or None; nothing is kept."""
    books = cycle.open_later()
    found: list[PlacementResult] = []
    with books.trial():
        for other in moving:
            books.release(cycle.allocation_of(other))
        wanted: list[tuple[Request | Refusal, int]] = [(request, request.workers)]
        wanted += [(resolve(cycle, other), other.placement.workers) for other in moving if other.placement is not None]
        for asked, workers in wanted:
            place = None if isinstance(asked, Refusal) else cycle.find(books, asked, workers)
            if place is None:
                return None
            books.allocate(place.allocation)
            found.append(place)
    return found


def _carry_out(cycle: Cycle, job: Job, moving: Sequence[Job], places: Sequence[PlacementResult]) -> None:
    books = cycle.open_later()
    for other in moving:
        books.release(cycle.allocation_of(other))
        cycle.evicted[other.key] = Evict(
            job=other.key,
            kind=EvictionKind.MOVED,
            in_favour_of=job.key,
            message=f"Moves to another place, which is kept for it, so that {job.key} can start.",
        )
    for key, place in zip((job.key, *(other.key for other in moving)), places, strict=True):
        cycle.nominate(key, place)
    cycle.verdicts[job.key] = waiting_for_eviction(places[0].placement).verdict(job.key)
