"""One future: from a snapshot on, jobs end when their drawn run times are over, and waiting ones take their turns.

Turns are the production core's: requests, quotas, order of queues, search for places, victims of reclaim and preempt,
places kept for the first job that waits in each class, backfill of jobs that say that they end before. One ending is
one step, so that a play can be interrupted anywhere. A turn looks at the first job of every kind of request alone:
equal jobs behind it cannot start where it cannot. Of equal places the fullest is taken: learning the mix for each play
would cost more than the play.

Jobs that come meanwhile are played as the caller supposes them. Not played: elastic growth and shrinking, and what an
eviction loses; `estimates` learns what they do.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeAlias

from cotenant.core.actions.evict import find_victims
from cotenant.core.actions.eviction_rules import EvictionRules
from cotenant.core.actions.victims import CandidateFinder
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.outcome import CycleOutcome
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.cycle.search import PlacementResult, find, fits, headroom
from cotenant.core.explain.forecast import Forecast
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Refusal
from cotenant.core.placement import BestFit
from cotenant.core.policy import Policy
from cotenant.core.queueing.fair_share import DominantShares, past_shares, within_guarantee
from cotenant.core.queueing.order import QueueOrder, order_in_queue
from cotenant.core.quota.usage import Charge
from cotenant.core.snapshot.snapshot import Snapshot

Draw: TypeAlias = Callable[[Job, float], float | None]
"""(job, seconds that its present attempt has run) → seconds that it runs on; None: unknown."""

_LEAVING_S = 30.0
"""A job whose eviction is under way is gone after this time."""
_STEPS, _STEPS_PER_JOB = 200, 4
"""A play is over after so many steps, though some job has not started: it may never do."""
_ENDINGS = 512
"""Endings that are looked at to find the place of a job for which GPUs are kept."""


@dataclass(slots=True)
class _Kept:
    """GPUs that are kept for a job that waits."""

    request: Request
    starts_at: float
    allocation: Allocation
    classes: frozenset[str]


@dataclass(slots=True)
class Play:
    """A future on its way. `starts` is filled as it goes on."""

    now: float
    starts: dict[JobKey, float] = field(default_factory=dict)
    """Job → when it starts, in the order of starts."""

    _cycle: Cycle = field(init=False)
    _shares: DominantShares = field(init=False)
    _draw: Draw = field(init=False)
    _reserve_within_s: int = 0
    _endings: list[tuple[float, JobKey]] = field(default_factory=list)
    _held: dict[JobKey, tuple[Job, Allocation, float]] = field(default_factory=dict)
    """Job → what it holds, and when that ends."""
    _waiting: dict[Request, list[Job]] = field(default_factory=dict)
    _kept: dict[JobKey, _Kept] = field(default_factory=dict)
    _leaving: dict[JobKey, Job] = field(default_factory=dict)
    _evicted: set[JobKey] = field(default_factory=set)
    """Each job leaves once at most, so that a play ends."""
    _guarantee_waits: bool = False
    """One of `_refused` lies inside its guarantee."""
    _refused: set[Request] = field(default_factory=set)
    """Found no place since the last ending."""
    _arrivals: Iterator[Job] = field(default_factory=lambda: iter(()))
    _next: Job | None = None
    _unstarted: set[JobKey] = field(default_factory=set)
    """Jobs of the snapshot that wait still."""
    _steps_left: int = 0
    _resolve: Callable[[Job], Request | Refusal] = field(init=False)

    @classmethod
    def of(cls, snapshot: Snapshot, policy: Policy, draw: Draw, arrivals: Iterator[Job]) -> Play:
        """`arrivals`: jobs that are supposed to come, in the order of their submission, maybe without end."""
        play = cls(snapshot.now)
        play._arrivals, play._next = arrivals, next(arrivals, None)
        play._cycle = cycle = Cycle.open(snapshot, replace(policy, placer=BestFit()))
        play._shares = DominantShares(cycle.tree, past_shares(snapshot, policy))
        play._draw, play._reserve_within_s = draw, policy.reserve_within_s
        play._resolve = RequestResolver(cycle.inventory, cycle.tree).resolve
        for key, job in cycle.running.by_key.items():
            play._hold(job, cycle.running.allocations[key], job.admitted_at or snapshot.now)
        for entry in sorted(cycle.entries, key=lambda entry: order_in_queue(entry.job)):
            play._wait(entry.job)
        play._unstarted = {job.key for jobs in play._waiting.values() for job in jobs}
        play._steps_left = _STEPS + _STEPS_PER_JOB * len(snapshot.jobs)
        play._turn()
        return play

    @property
    def is_over(self) -> bool:
        return not self._endings or not self._unstarted or self._steps_left <= 0

    def step(self) -> None:
        """Go on to the next ending or arrival, and give turns."""
        self._steps_left -= 1
        if self._next is not None and self._next.submitted_at < self._endings[0][0]:
            self.now = max(self.now, self._next.submitted_at)
            self._wait(self._next)
            self._next = next(self._arrivals, None)
            self._turn()
            return
        self.now, key = heapq.heappop(self._endings)
        if self._ends(key, self.now):
            self._refused.clear()
            self._guarantee_waits = False
            if self._leaving.pop(key, None) is not None:
                self._requeue(key)
            else:
                self._cycle.accounts.current.release(self._held.pop(key)[1])
        if not self._endings or self._endings[0][0] > self.now:
            self._turn()

    def _ends(self, key: JobKey, at: float) -> bool:
        """The ending is true: the job was not evicted meanwhile."""
        return key in self._held and self._held[key][2] == at

    def _hold(self, job: Job, allocation: Allocation, since: float) -> None:
        seconds = self._draw(job, max(0.0, self.now - since))
        if job.evicting:
            self._leaving[job.key], seconds = job, _LEAVING_S
        ends_at = inf if seconds is None else self.now + seconds
        self._held[job.key] = job, allocation, ends_at
        if ends_at < inf:
            heapq.heappush(self._endings, (ends_at, job.key))

    def _requeue(self, key: JobKey) -> None:
        """The job leaves and waits again, with what it has done."""
        job, allocation, _ = self._held.pop(key)
        self._cycle.accounts.current.release(allocation)
        ran_s = job.ran_s + int(max(0.0, self.now - (job.admitted_at or self.now)))
        self._wait(replace(job, placement=None, admitted_at=None, evicting=False, ran_s=ran_s))

    def _wait(self, job: Job) -> None:
        request = self._resolve(job)
        if not isinstance(request, Refusal):
            jobs = self._waiting.setdefault(request, [])
            insort(jobs, job, key=order_in_queue)

    def _turn(self) -> None:
        """Turns until nobody starts any more, as in a cycle: after a start the order is another one."""
        self._start_where_kept()
        going_on = True
        while going_on:
            going_on = False
            for job, request in self._in_order():
                place = self._place(request)
                start = self._backfill(request) if place is None else (job, place)
                if start is None and (made := self._evict_for(request)) is not None:
                    start = job, made
                if start is not None:
                    self._start(start[0], request, start[1])
                    going_on = True
                    break
                self._refused.add(request)
                self._keep(job, request)

    def _in_order(self) -> Iterator[tuple[Job, Request]]:
        heads = {}
        for request, jobs in self._waiting.items():
            head = None if request in self._refused else next((job for job in jobs if job.key not in self._kept), None)
            if head is not None:
                heads[head.key] = head, request
        usage = self._cycle.accounts.current.usage

        def is_within(queue: int, job: Job) -> bool:
            return within_guarantee(usage, heads[job.key][1], queue)

        jobs = [job for job, _ in heads.values()]
        for job in QueueOrder(self._cycle.tree, usage, self._shares, is_within, jobs):
            yield heads[job.key]

    def _place(self, request: Request) -> PlacementResult | None:
        current = self._cycle.accounts.current
        return find(current, request, request.workers) if fits(current, request) else None

    def _backfill(self, request: Request) -> tuple[Job, PlacementResult] | None:
        """The first of these jobs that is sure to end before a place is needed which is kept, in such places."""
        last = max((kept.starts_at for kept in self._kept.values()), default=self.now)
        for job in self._waiting[request]:
            runtime_s = job.max_runtime_s or job.expected_runtime_s
            if job.key not in self._kept and runtime_s is not None and self.now + runtime_s <= last:
                break
        else:
            return None
        current = self._cycle.accounts.current
        with current.trial():
            for kept in self._kept.values():
                if self.now + runtime_s <= kept.starts_at:
                    current.release(kept.allocation)
            result = find(current, request, request.workers)
        return None if result is None else (job, result)

    def _start(self, job: Job, request: Request, result: PlacementResult) -> None:
        self._waiting[request].remove(job)
        self._cycle.accounts.current.allocate(result.allocation)
        if job.key in self._unstarted:
            self._unstarted.remove(job.key)
            self.starts[job.key] = self.now
        self._hold(replace(job, placement=result.placement, admitted_at=self.now), result.allocation, self.now)

    def _evict_for(self, request: Request) -> PlacementResult | None:
        """A place that others had to leave, who wait again."""
        cycle, current = self._cycle, self._cycle.accounts.current
        path, job = cycle.tree.paths[request.queue], request.job
        within = any(within_guarantee(current.usage, request, queue) for queue in path)
        lower = any(one.queue == job.queue and one.priority < job.priority for one, _, _ in self._held.values())
        self._guarantee_waits |= within
        if not within and not lower:
            return None
        held = {key: one for key, (one, _, _) in self._held.items() if not one.evicting and key not in self._evicted}
        running = RunningJobs(held, {key: self._held[key][1] for key in held}, cycle.tree)
        moment = Moment(self.now)
        finder = CandidateFinder(running, cycle.inventory, EvictionRules(cycle.tree, cycle.policy, moment))
        nobody = CycleOutcome()
        candidates = finder.candidates(request, current.usage, nobody, guarantee_waits=self._guarantee_waits)
        found = find_victims(current, request, candidates, nobody, moment)
        if found is None or not all(victim.is_job for victim in found.victims):
            return None
        for victim in found.victims:
            self._evicted.add(victim.job.key)
            self._requeue(victim.job.key)
        return found.result

    def _keep(self, job: Job, request: Request) -> None:
        """Keep the place of the first job that waits for space in its classes, where its start is near enough."""
        classes = frozenset(bucket[0] for option in request.options for bucket in option.buckets)
        taken = {name for kept in self._kept.values() for name in kept.classes}
        current = self._cycle.accounts.current
        if not self._reserve_within_s or classes & taken or not self._allowed(request):
            return
        endings = [
            (at, key, self._held[key][1]) for at, key in heapq.nsmallest(_ENDINGS, self._endings) if self._ends(key, at)
        ]
        start = Forecast(current, endings, self.now).start_of(request)
        if start is None or start.at > self.now + self._reserve_within_s:
            return
        kept = Allocation(start.result.allocation.nodes, Charge(-1, "", ()))
        current.allocate(kept)
        self._kept[job.key] = _Kept(request, start.at, kept, classes)

    def _allowed(self, request: Request) -> bool:
        """Quotas would let it start: it waits for space."""
        current = self._cycle.accounts.current
        idle = current.lendable_idle()
        return any(
            headroom(current.usage, request, option, idle).workers >= request.workers for option in request.options
        )

    def _start_where_kept(self) -> None:
        """Whoever has its place starts; whose time has come, and has it not, waits like the others again."""
        current = self._cycle.accounts.current
        for key, kept in list(self._kept.items()):
            current.release(kept.allocation)
            result = find(current, kept.request, kept.request.workers)
            if result is None and self.now < kept.starts_at:
                current.allocate(kept.allocation)
                continue
            del self._kept[key]
            if result is not None:
                job = next(one for one in self._waiting[kept.request] if one.key == key)
                self._start(job, kept.request, result)
