"""The longest time for which anybody in the way of a job is counted to hold GPUs: h of `start_bounds`.

A job that is counted without end gives no h: one that waits, because it may start before; one that runs, unless the
request finds a place beside it when all others have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from cotenant.core.actions.tenure import Tenures
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.cycle.search import fits
from cotenant.core.model.objects import Job, JobKey

_FEW: Final = 256
"""Running jobs without a maxRuntime that are asked one by one; where there are more, one is taken to be in the way."""


@dataclass(frozen=True, slots=True, eq=False)
class HoldingTimes:
    """Of the jobs of one cycle, whatever is learned."""

    declared_s: int
    """The longest maxRuntime of any job that runs or waits."""
    waiting: Counter[tuple[int, str]]
    """(queue, class) → waiting jobs without one that may run there."""
    running: Sequence[Job]
    """Without one, or not to be evicted."""

    @classmethod
    def of(cls, running: RunningJobs, waiting: Iterable[tuple[Job, Request]]) -> HoldingTimes:
        longest, undeclared = _of_running(running)
        jobs: Counter[Request] = Counter()
        for job, request in waiting:
            if job.max_runtime_s is None:
                jobs[request] += 1
            elif job.max_runtime_s > longest:
                longest = job.max_runtime_s
        by_class: Counter[tuple[int, str]] = Counter()
        for request, number in jobs.items():
            by_class.update({(request.queue, name): number for name in request.classes})
        return cls(longest, by_class, undeclared)


def _of_running(running: RunningJobs) -> tuple[int, Sequence[Job]]:
    known: tuple[int, Sequence[Job]] | None = running.kept.get(HoldingTimes)
    if known is None:
        jobs = [job for job in running.by_key.values() if not job.evicting]
        longest = max((job.max_runtime_s or 0 for job in jobs), default=0)
        open_ended = [job for job in jobs if job.max_runtime_s is None or not job.preemptible]
        known = running.kept[HoldingTimes] = longest, open_ended
    return known


@dataclass(frozen=True, slots=True, eq=False)
class _Holds:
    """What the requests of one queue with equal rights have in common."""

    longest_s: float
    is_learned: bool
    unknown: Counter[str]
    """Class → waiting jobs that are counted without end."""
    unknown_queues: frozenset[int]
    leaving: Occupancy | None
    """What is held when all have left who are not counted for longer; None: all do."""


class LongestHolds:
    """h by request."""

    def __init__(
        self, times: HoldingTimes, tenures: Tenures, held: Sequence[tuple[JobKey, Allocation]], occupancy: Occupancy
    ) -> None:
        """`held`: what jobs hold in the occupancy, or what is kept there for them; some hold more than one place."""
        self._times, self._tenures, self._held, self._occupancy = times, tenures, held, occupancy
        self._holds: dict[tuple[int, bool], _Holds] = {}
        self._fits: dict[Request, bool] = {}
        self._oldest: dict[str, float] | None = None

    def longest_s(self, job: Job, request: Request) -> tuple[float, bool]:
        """(h, is it enforced, and not only learned?)"""
        key = request.queue, self._tenures.is_guaranteed(request)
        holds = self._holds.get(key)
        if holds is None:
            holds = self._holds[key] = self._holds_for(request)
        if holds.unknown:
            itself = job.max_runtime_s is None and request.queue in holds.unknown_queues
            if any(holds.unknown[name] > itself for name in request.classes):
                return inf, True
        if holds.leaving is not None and not self._fits_beside(holds.leaving, request):
            return inf, True
        return holds.longest_s, not holds.is_learned

    def _holds_for(self, request: Request) -> _Holds:
        tenures, tree = self._tenures, self._occupancy.tree
        longest_s, is_learned = tenures.longest_s, False
        unknown: Counter[str] = Counter()
        unknown_queues: set[int] = set()
        if longest_s == inf:
            longest_s = max(self._times.declared_s, tenures.protected_s)
            queues = {queue for queue, _ in self._times.waiting}
            for name in {job.queue for job in self._times.running}:
                if name in tree.index:
                    queues.add(tree.index[name])
                elif (learned_s := tenures.learned_s(name)) < inf:  # of a queue that is gone
                    longest_s, is_learned = max(longest_s, learned_s), True
            for queue in queues:
                learned_s = 0.0 if tenures.never_covers(request, queue) else tenures.learned_s(tree.queues[queue].name)
                if learned_s == inf:
                    unknown_queues.add(queue)
                elif learned_s:
                    longest_s, is_learned = max(longest_s, learned_s), True
            for (queue, name), number in self._times.waiting.items():
                if queue in unknown_queues:
                    unknown[name] += number
        if not any(unknown[name] > 1 for name in request.classes) and len(self._times.running) <= _FEW:
            leaving = self._without_those_who_leave(request, longest_s)
        else:  # too many to ask each: as if one of them stayed in the way
            leaving = None
            if len(self._times.running) > _FEW and longest_s != tenures.longest_s and self._may_stay(request):
                unknown.update(dict.fromkeys(request.classes, 2))
        return _Holds(longest_s, is_learned, unknown, frozenset(unknown_queues), leaving)

    def _may_stay(self, request: Request) -> bool:
        """Some queue whose jobs count against the request has an oldest one that may run without end."""
        tenures, tree = self._tenures, self._occupancy.tree
        return any(
            tenures.moment.has_come(begun + tenures.learned_s(queue)) or tenures.learned_s(queue) == inf
            for queue, begun in self._oldest_by_queue().items()
            if queue not in tree.index or not tenures.never_covers(request, tree.index[queue])
        )

    def _oldest_by_queue(self) -> dict[str, float]:
        """Queue → when the first of its open-ended jobs began."""
        if self._oldest is None:
            self._oldest = {}
            for job in self._times.running:
                begun = self._tenures.moment.unnoted if job.admitted_at is None else job.admitted_at
                if begun < self._oldest.get(job.queue, inf):
                    self._oldest[job.queue] = begun
        return self._oldest

    def _without_those_who_leave(self, request: Request, longest_s: float) -> Occupancy | None:
        moment, tenures = self._tenures.moment, self._tenures
        stay = {
            job.key
            for job in self._times.running
            if not moment.has_come(tenures.counted_until(request, job) - longest_s)
        }
        if not stay:
            return None
        occupancy = self._occupancy.copy()
        for key, allocation in self._held:
            if key not in stay:
                occupancy.release(allocation)
        return occupancy

    def _fits_beside(self, occupancy: Occupancy, request: Request) -> bool:
        known = self._fits.get(request)
        if known is None:
            known = self._fits[request] = fits(occupancy, request)
        return known
