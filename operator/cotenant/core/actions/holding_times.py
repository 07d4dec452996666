"""The longest time for which anybody in the way of a job is counted to hold GPUs: h of `start_bounds`.

A job that is counted without end gives no h: one that waits, because it may start before; one that runs, unless the
request finds a place beside it when all others have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeAlias

from cotenant.core.actions.tenure import Tenures
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.cycle.search import fits
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.quota.tree import QueueTree

_FEW: Final = 256
"""Running jobs without a maxRuntime that are asked one by one; where there are more, one is taken to be in the way."""


@dataclass(frozen=True, slots=True, eq=False)
class HoldingTimes:
    """Holding times of the jobs of one cycle, whatever is learned."""

    declared_s: int
    """The longest maxRuntime of any job that runs or waits."""
    waiting: Counter[tuple[int, str]]
    """(queue, class) → waiting jobs without one that may run there."""
    running: Sequence[Job]
    """Without one, or whom nobody asks to leave."""
    oldest: Mapping[str, float] = field(default_factory=dict)
    """Queue → when the first of those that run began; infinity: it is not known when."""
    staying: Sequence[Job] = ()
    """Those of them whom nobody asks to leave."""

    @classmethod
    def of(cls, running: RunningJobs, waiting: Iterable[tuple[Job, Request]]) -> HoldingTimes:
        longest, open_ended, oldest, staying = _of_running(running)
        jobs: Counter[Request] = Counter()
        for job, request in waiting:
            if job.max_runtime_s is None:
                jobs[request] += 1
            elif job.max_runtime_s > longest:
                longest = job.max_runtime_s
        by_class: Counter[tuple[int, str]] = Counter()
        for request, number in jobs.items():
            by_class.update({(request.queue, name): number for name in request.classes})
        return cls(longest, by_class, open_ended, oldest, staying)


_OfRunning: TypeAlias = tuple[int, Sequence[Job], Mapping[str, float], Sequence[Job]]


def _of_running(running: RunningJobs) -> _OfRunning:
    known: _OfRunning | None = running.kept.get(HoldingTimes)
    if known is None:
        jobs = [job for job in running.by_key.values() if not job.evicting]
        longest = max((job.max_runtime_s or 0 for job in jobs), default=0)
        open_ended = [job for job in jobs if job.max_runtime_s is None or _stays(job, running.tree)]
        oldest: dict[str, float] = {}
        for job in open_ended:
            begun = inf if job.admitted_at is None else job.admitted_at
            oldest[job.queue] = min(begun, oldest.get(job.queue, inf))
        staying = [job for job in open_ended if _stays(job, running.tree)]
        known = running.kept[HoldingTimes] = longest, open_ended, oldest, staying
    return known


def _stays(job: Job, tree: QueueTree) -> bool:
    """The job is not evicted: it is not preemptible, a claim of others, or of a queue that is gone."""
    return not job.preemptible or job.queue not in tree.index


@dataclass(frozen=True, slots=True, eq=False)
class _Holds:
    """Facts that the requests of one queue with equal rights share."""

    longest_s: float
    is_learned: bool
    unknown: Counter[str]
    """Class → waiting jobs that are counted without end."""
    unknown_queues: frozenset[int]
    may_stay: bool
    """Too many run to ask each, and one of them may be in the way without end."""


class LongestHolds:
    """h by request."""

    def __init__(
        self, times: HoldingTimes, tenures: Tenures, held: Iterable[tuple[JobKey, Allocation]], occupancy: Occupancy
    ) -> None:
        """`held`: what jobs hold in the occupancy, or what is kept there for them; some hold more than one place. Read
        once for each occupancy that is made of it."""
        self._times, self._tenures, self._held, self._occupancy = times, tenures, held, occupancy
        self._holds: dict[tuple[int, bool], _Holds] = {}
        self._leaving: dict[tuple[int, bool], Occupancy | None] = {}
        self._fits: dict[Request, bool] = {}
        self._last_stay: float | None = None

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
        if holds.may_stay or not self._fits_beside(key, holds.longest_s, request):
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
            for name in self._times.oldest:
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
        may_stay = len(self._times.running) > _FEW and self._may_stay(request, longest_s)
        return _Holds(longest_s, is_learned, unknown, frozenset(unknown_queues), may_stay)

    def _may_stay(self, request: Request, longest_s: float) -> bool:
        """A job that is not evicted stays for longer; or, without a tenure, some queue whose jobs count
        against the request has an oldest one that may run without end."""
        tenures, tree, now = self._tenures, self._occupancy.tree, self._tenures.moment.unnoted
        if not tenures.moment.has_come(self._last_to_stay(request) - longest_s):
            return True
        return tenures.longest_s == inf and any(
            tenures.moment.has_come(min(begun, now) + tenures.learned_s(queue)) or tenures.learned_s(queue) == inf
            for queue, begun in self._times.oldest.items()
            if queue not in tree.index or not tenures.never_covers(request, tree.index[queue])
        )

    def _last_to_stay(self, request: Request) -> float:
        """The last end, as counted, of a job that is not evicted; the same for every request."""
        if self._last_stay is None:
            ends = (self._tenures.counted_until(request, job) for job in self._times.staying)
            self._last_stay = max(ends, default=-inf)
        return self._last_stay

    def _without_those_who_leave(self, request: Request, longest_s: float) -> Occupancy | None:
        """None: all leave."""
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

    def _fits_beside(self, rights: tuple[int, bool], longest_s: float, request: Request) -> bool:
        """The request finds a place when all have left who are not counted for longer. Where too many run to ask each,
        all do: see `_may_stay`."""
        known = self._fits.get(request)
        if known is None:
            if rights not in self._leaving:
                is_few = len(self._times.running) <= _FEW
                self._leaving[rights] = self._without_those_who_leave(request, longest_s) if is_few else None
            leaving = self._leaving[rights]
            known = self._fits[request] = leaving is None or fits(leaving, request)
        return known
