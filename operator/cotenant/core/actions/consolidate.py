"""Moving small jobs aside (evict → resume from the checkpoint elsewhere) for a job that cannot start otherwise.

Only jobs of queues that opted in move, at most `Policy.moves` per cycle, only from one node per beneficiary, and only
if every one of them has a new place in the same trial and the work that they lose is less than the wait that it saves:
    Σ lost work of the moved  <  milli-GPU of the beneficiary × (its start, if jobs end as they declare − now)
If that start is unknown, the wait has no bound, and the move is worth it. Every moved job gets a place again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry
from cotenant.core.cycle.search import PlacementResult, find
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import HELPED_BY_MOVES, Evict, EvictionKind, Refusal


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """Jobs that move, with their new places, and the place that they make for the beneficiary."""

    jobs: tuple[Job, ...]
    places: tuple[PlacementResult, ...]
    """Parallel to `jobs`."""
    result: PlacementResult


class Consolidation:
    """Moves of one cycle; every job moves at most once."""

    __slots__ = ("_left", "_movable", "_resolve", "_rules", "_running")

    def __init__(self, cycle: Cycle, resolve: Callable[[Job], Request | Refusal]) -> None:
        self._running, self._rules, self._resolve = cycle.running, cycle.rules, resolve
        self._left = cycle.policy.moves
        self._movable = self._by_row(cycle) if self._left else {}
        """Row → jobs that lie on it alone and may move, least lost work first."""

    @property
    def may_move(self) -> bool:
        """Some job may still move."""
        return bool(self._left and self._movable)

    def find_move(self, start: float | None, request: Request, after_evictions: Callable[[], Occupancy]) -> Move | None:
        """Fewest jobs of the cheapest node whose move lets the request start now and not at `start` (None: unknown);
        None if that is not worth it."""
        if not self.may_move:
            return None
        self._rules.moment.pin()  # costs change with time: the decision cannot be reused
        cheapest = sorted(self._movable, key=lambda row: (self._cost(self._movable[row][: self._left]), row))
        for row in cheapest:
            for count in range(1, min(self._left, len(self._movable[row])) + 1):
                moving = self._movable[row][:count]
                if not self._is_worth(start, request, moving):
                    break
                move = self._try(request, moving, after_evictions())
                if move is not None:
                    self._spend(moving)
                    return move
        return None

    def _by_row(self, cycle: Cycle) -> dict[int, list[Job]]:
        rows: dict[int, list[Job]] = {}
        tree = self._running.tree
        if not any(queue.consolidation for queue in tree.queues):
            return rows
        for job in self._running.by_key.values():
            index = tree.index.get(job.queue)
            if index is None or not tree.queues[index].consolidation:
                continue
            nodes = self._running.allocations[job.key].nodes
            if cycle.stays(job) and len(nodes) == 1 and self._rules.may_be_evicted(job):
                rows.setdefault(nodes[0].row, []).append(job)
        for jobs in rows.values():
            jobs.sort(key=lambda job: (self._lost_work(job), job.key))
        return rows

    def _lost_work(self, job: Job) -> int:
        return self._rules.lost_work(job, self._running.allocations[job.key].charge.milli)

    def _cost(self, jobs: Iterable[Job]) -> int:
        return sum(self._lost_work(job) for job in jobs)

    def _is_worth(self, start: float | None, request: Request, moving: Sequence[Job]) -> bool:
        if start is None:
            return True
        milli = request.workers * request.options[0].cost.milli
        return self._cost(moving) < milli * int(start - self._rules.moment.read())

    def _try(self, request: Request, moving: Sequence[Job], occupancy: Occupancy) -> Move | None:
        """Places for the beneficiary and for every job that moves; the occupancy is left as it was."""
        places: list[PlacementResult] = []
        with occupancy.trial():
            for job in moving:
                occupancy.release(self._running.allocations[job.key])
            wanted: list[tuple[Request | Refusal, int]] = [(request, request.workers)]
            wanted += [(self._resolve(job), job.placement.workers) for job in moving if job.placement is not None]
            for resolved, workers in wanted:
                place = None if isinstance(resolved, Refusal) else find(occupancy, resolved, workers)
                if place is None:
                    return None
                occupancy.allocate(place.allocation)
                places.append(place)
        return Move(tuple(moving), tuple(places[1:]), places[0])

    def _spend(self, moved: Sequence[Job]) -> None:
        self._left -= len(moved)
        keys = {job.key for job in moved}
        for row in self._movable:
            self._movable[row] = [job for job in self._movable[row] if job.key not in keys]


def beneficiaries(waiting: Iterable[tuple[Entry, Request]], most: int) -> list[tuple[Entry, Request]]:
    """The first waiting entry of each request that a move can help, in order; at most `most`."""
    first: dict[Request, Entry] = {}
    for entry, request in waiting:
        if entry.reason is not None and entry.reason.reason in HELPED_BY_MOVES:
            first.setdefault(request, entry)
    return [(entry, request) for request, entry in first.items()][:most]


def evictions_of(move: Move, beneficiary: Job) -> tuple[Evict, ...]:
    return tuple(
        Evict(
            job=job.key,
            kind=EvictionKind.MOVED,
            in_favour_of=beneficiary.key,
            message=f"Moves to another place, which is reserved for it, so that {beneficiary.key} can start.",
        )
        for job in move.jobs
    )
