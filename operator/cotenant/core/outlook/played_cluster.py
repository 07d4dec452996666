"""The cluster in a play: who holds what until when, who waits, what was borrowed, on a virtual clock.

All of it is kept from ending to ending, so a cycle of a play costs what it decides and not what there is.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from typing import Final, TypeAlias

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.cycle.search import PlacementResult
from cotenant.core.explain.forecast import Ending, ends_at
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.failover import BorrowingRecord
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey, Placement, TenantQueue
from cotenant.core.model.plan import Refusal
from cotenant.core.outlook.played_bookings import PlayedBookings
from cotenant.core.policy import Policy
from cotenant.core.queueing.fair_share import DominantShares, past_shares
from cotenant.core.queueing.order import order_in_queue
from cotenant.core.queueing.service import ServiceOrder
from cotenant.core.queueing.usage_history import HALF_LIFE_S, UsageHistory
from cotenant.core.quota.bookings import BookingStanding
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage
from cotenant.core.snapshot.snapshot import Snapshot

Draw: TypeAlias = Callable[[Job, float], float | None]
"""(job, seconds that its present attempt has run) → seconds that it runs on; None: unknown."""
Resolve: TypeAlias = Callable[[Job], Request | Refusal]

LEAVING_S: Final = 30.0
"""A job whose eviction is under way is gone after this time."""


class PlayedCluster:
    """Begins as the cycle finds it, without jobs: `hold` and `wait` bring the jobs in."""

    def __init__(self, cycle: Cycle, draw: Draw, resolve: Resolve) -> None:
        self.moment = Moment(cycle.now)
        self.policy: Policy = cycle.policy
        self.tree, self.inventory = cycle.tree, cycle.inventory
        self.occupancy = cycle.accounts.current
        self.resolve = resolve
        self.starts: dict[JobKey, float] = {}
        """Job of `unstarted` → when it first starts, in the order of starts."""
        self.unstarted: set[JobKey] = set()
        self.waiting: dict[Request, list[Job]] = {}
        """In each, by priority and age."""
        self.evicted: set[JobKey] = set(cycle.snapshot.evicted)
        """Since anything last came or ended."""
        self.refused: dict[JobKey, Job] = {}
        """Jobs that can never start, as far as quotas are what they are now."""
        self._cycle, self._snapshot, self._draw = cycle, cycle.snapshot, draw
        self._jobs: dict[JobKey, Job] = {}
        self._last: RunningJobs | None = None
        self._allocations: dict[JobKey, Allocation] = {}
        self._ends: dict[JobKey, float] = {}
        self._endings: list[tuple[float, JobKey]] = []
        self._said: list[tuple[float, JobKey]] = []
        """Endings as they were declared: what a decision counts on."""
        self._priorities: Counter[tuple[str, int]] = Counter()
        """(queue, priority) → jobs that run."""
        self._backfilled: set[JobKey] = set()
        half_life_s = max((past.half_life_s for past in cycle.snapshot.usage_history), default=HALF_LIFE_S)
        self._history = UsageHistory(half_life_s)
        self._history.restore(_records(cycle.snapshot), (), self.now)
        self._history.advance(self.now, self.occupancy.usage)
        self.booked = self._bookings(cycle.snapshot.bookings)

    @property
    def now(self) -> float:
        return self.moment.unnoted

    @property
    def next_ending(self) -> float | None:
        """None where no job ends any more."""
        while self._endings and self._ends.get(self._endings[0][1]) != self._endings[0][0]:
            heapq.heappop(self._endings)
        return self._endings[0][0] if self._endings else None

    @property
    def running(self) -> RunningJobs:
        """Jobs as they run now; later changes do not reach it."""
        self._last = RunningJobs(dict(self._jobs), dict(self._allocations), self.tree, before=self._last)
        return self._last

    def shares(self) -> DominantShares:
        past = replace(self._snapshot, now=self.now, usage_history=self._history.borrowing())
        return DominantShares(self.tree, past_shares(past, self.policy))

    def service(self) -> ServiceOrder:
        return ServiceOrder(self.tree, self._snapshot.runtimes, self.moment, self.policy.restart_cost_s)

    def has_lower(self, job: Job) -> bool:
        """A job of its queue runs with lower priority."""
        return any(
            number and queue == job.queue and priority < job.priority
            for (queue, priority), number in self._priorities.items()
        )

    def has_overrun(self) -> bool:
        """True if a job runs that was backfilled and has outlived its declared run time."""
        return any((self._jobs[key].backfilled_until or inf) <= self.now for key in self._backfilled)

    def has_outlived(self) -> bool:
        """True if a job runs that was to end by now, since it was last settled."""
        return bool(self._said) and self._said[0][0] <= self.now

    def settle_declared(self) -> None:
        """Corrects jobs that have outlived what they expected: the maximum counts from now on."""
        while self.has_outlived():
            _, key = self._said.pop(0)
            self._note_declared(key)

    def declared_endings(self) -> list[Ending]:
        """Within the time for which places are kept, soonest first."""
        last = bisect_left(self._said, (self.now + self.policy.reserve_within_s, "￿"))
        return [(at, key, self._allocations[key]) for at, key in self._said[:last]]

    def go_to(self, at: float) -> None:
        if at > self.now:
            self._history.advance(at, self.occupancy.usage)
            self.moment = Moment(at)
            self.booked.go_to(self.moment)

    def change_queues(self, queues: tuple[TenantQueue, ...], standings: tuple[BookingStanding, ...]) -> None:
        """Bookings begin or end: the same queues have other quotas, and who waits is judged by them."""
        self.booked.clear()
        earlier, before = self.booked.earlier, self.occupancy
        self.tree = QueueTree.of(queues, self.inventory)
        usage = Usage(self.tree)
        for allocation in self._allocations.values():
            usage.add(allocation.charge)
        self.occupancy = Occupancy(before.ledger, usage, before.fit_cache.scorer, before.fit_cache.book)
        self.resolve, self._last = RequestResolver(self.inventory, self.tree).resolve, None
        self.booked = self._bookings(standings)
        self.booked.earlier = earlier
        jobs = [job for same in self.waiting.values() for job in same] + list(self.refused.values())
        asked = {job.key for job in self._snapshot.jobs if job.placement is None} - self.starts.keys()
        self.waiting, self.refused = {}, {}
        for job in jobs:
            (self.unstarted.add if self.wait(job) and job.key in asked else self.unstarted.discard)(job.key)

    def _bookings(self, standings: tuple[BookingStanding, ...]) -> PlayedBookings:
        running = RunningJobs(self._jobs, self._allocations, self.tree)
        found = PlayedBookings(self._cycle, standings, self.occupancy, running)
        found.go_to(self.moment)
        return found

    def hold(self, job: Job, allocation: Allocation, since: float) -> None:
        """The job runs, and holds what is allocated already."""
        leaves = job.evicting
        seconds = LEAVING_S if leaves else self._draw(job, max(0.0, self.now - since))
        self._jobs[job.key], self._allocations[job.key] = job, allocation
        self._ends[job.key] = at = inf if seconds is None else self.now + seconds
        if at < inf:
            heapq.heappush(self._endings, (at, job.key))
        if not leaves:
            self._note_declared(job.key)
            self._priorities[job.queue, job.priority] += 1
        if job.backfilled_until is not None:
            self._backfilled.add(job.key)
        self.booked.note(job, allocation, gave_back=False)

    def wait(self, job: Job) -> Request | None:
        """The job waits from now on; None where it can never start."""
        request = self.resolve(job)
        if isinstance(request, Refusal):
            self.refused[job.key] = job
            return None
        insort(self.waiting.setdefault(request, []), job, key=order_in_queue)
        return request

    def start(self, job: Job, request: Request, result: PlacementResult, backfilled_until: float | None) -> None:
        self._remove(job, request)
        self.occupancy.allocate(result.allocation)
        self._history.charge_penalty(job, result.allocation.charge.milli, self.occupancy.usage)
        self._note_start(job, self.now)
        started = replace(
            job, placement=result.placement, admitted_at=self.now, backfilled_until=backfilled_until
        )  # fmt: skip
        self.hold(started, result.allocation, self.now)

    def start_nominated(self, job: Job, placement: Placement) -> None:
        """The job has its place as soon as those who were asked to leave it have left."""
        request = self.resolve(job)
        if isinstance(request, Refusal) or job not in self.waiting.get(request, ()):
            return
        allocation = allocation_of(job, placement, self.inventory, self.tree)
        self._remove(job, request)
        self.occupancy.allocate(allocation)
        self._note_start(job, self.now + LEAVING_S)
        self.hold(replace(job, placement=placement, admitted_at=self.now), allocation, self.now)

    def end_next(self) -> None:
        """Go on to the next ending: the job is gone, or, if it was asked to leave, waits again."""
        at = self.next_ending
        assert at is not None
        self.go_to(at)
        _, key = heapq.heappop(self._endings)
        job = self._give_back(key)
        if job.evicting:
            self._wait_again(job)

    def evict(self, keys: Iterable[JobKey]) -> None:
        """They leave at once, and wait again with what they have done."""
        for key in keys:
            self.evicted.add(key)
            self._wait_again(self._give_back(key))

    def _wait_again(self, job: Job) -> None:
        ran_s = job.ran_s + int(max(0.0, self.now - (job.admitted_at or self.now)))
        bare = replace(job, placement=None, admitted_at=None, backfilled_until=None, evicting=False, ran_s=ran_s)
        self.wait(bare)

    def _note_start(self, job: Job, at: float) -> None:
        if job.key in self.unstarted:
            self.unstarted.remove(job.key)
            self.starts[job.key] = at

    def _remove(self, job: Job, request: Request) -> None:
        jobs = self.waiting[request]
        del jobs[bisect_left(jobs, order_in_queue(job), key=order_in_queue)]
        if not jobs:
            del self.waiting[request]

    def _give_back(self, key: JobKey) -> Job:
        job, allocation = self._jobs.pop(key), self._allocations.pop(key)
        self.occupancy.release(allocation)
        self.booked.note(job, allocation, gave_back=True)
        del self._ends[key]
        self._backfilled.discard(key)
        if not job.evicting:
            self._priorities[job.queue, job.priority] -= 1
            self._forget_declared(job)
        return job

    def _note_declared(self, key: JobKey) -> None:
        job = self._jobs[key]
        if (at := ends_at(job, job.admitted_at, self.moment)) is not None:
            insort(self._said, (at, key))

    def _forget_declared(self, job: Job) -> None:
        for seconds in (job.expected_runtime_s, job.max_runtime_s):
            if seconds is None or job.admitted_at is None:
                continue
            entry = job.admitted_at + seconds, job.key
            place = bisect_left(self._said, entry)
            if place < len(self._said) and self._said[place] == entry:
                del self._said[place]


def _records(snapshot: Snapshot) -> list[BorrowingRecord]:
    return [
        BorrowingRecord(
            queue=past.queue,
            milli_seconds=int(past.milli_seconds),
            rate_milli=0,
            at=snapshot.now,
            half_life_s=int(past.half_life_s),
        )
        for past in snapshot.usage_history
    ]
