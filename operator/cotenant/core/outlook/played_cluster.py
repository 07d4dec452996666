"""The cluster in a play: which job holds what until when, which jobs wait, what was borrowed, on a virtual clock.

It is updated from ending to ending, so the cost of a cycle in a play depends on what it decides, not on the size of the
cluster.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from typing import Final, TypeAlias

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.accounts import Accounts
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.failover import BorrowingRecord
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey, Placement, TenantQueue
from cotenant.core.model.plan import Refusal, Resize
from cotenant.core.outlook.played_bookings import PlayedBookings
from cotenant.core.policy import Policy
from cotenant.core.queueing.fair_share import DominantShares, past_shares
from cotenant.core.queueing.order import order_in_queue
from cotenant.core.queueing.usage_history import HALF_LIFE_S, UsageHistory
from cotenant.core.quota.bookings import BookingStanding
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage
from cotenant.core.snapshot.snapshot import Snapshot

Draw: TypeAlias = Callable[[Job, float], float | None]
"""(job, seconds that its present attempt has run) → seconds that it runs on; None: unknown."""
Resolve: TypeAlias = Callable[[Job], Request | Refusal]

LEAVING_S: Final = 30.0
"""Assumed time until a job is gone whose eviction is under way."""


class PlayedAccounts(Accounts):
    """Accounts without a copy while no job leaves: until then both occupancies are the same object."""

    __slots__ = ()

    def open_after_evictions(self) -> Occupancy:
        return super().open_after_evictions() if self._after_evictions or self._leaving else self.current

    def depart(self, key: JobKey, part: Allocation) -> None:
        super().open_after_evictions()
        super().depart(key, part)

    def nominate(self, allocation: Allocation) -> None:
        super().open_after_evictions()
        super().nominate(allocation)


class PlayedCluster:
    """Begins with the occupancy of the cycle, and without jobs: `hold` and `wait` add the jobs."""

    def __init__(self, cycle: Cycle, draw: Draw, resolve: Resolve) -> None:
        self.moment = Moment(cycle.moment.at)
        """Moves on while a cycle is open: until `Moment.until` everything that the cycle decided still holds."""
        self.policy: Policy = cycle.policy
        self.tree, self.inventory = cycle.tree, cycle.inventory
        self.occupancy = cycle.accounts.current
        self.resolve = resolve
        self.starts: dict[JobKey, float] = {}
        """Job that waited when the play began → when it first starts, in the order of starts."""
        self.unstarted: set[JobKey] = set()
        self.waiting: dict[Request, list[Job]] = {}
        """Request → jobs that wait with it, by priority and age."""
        self.evicted: set[JobKey] = set(cycle.snapshot.evicted)
        """Jobs that were evicted since a job last came or ended."""
        self.refused: dict[JobKey, Job] = {}
        """Jobs that can never start with the quotas as they are now."""
        self._snapshot, self._draw = cycle.snapshot, draw
        self._jobs: dict[JobKey, Job] = {}
        self._last: RunningJobs | None = None
        self._allocations: dict[JobKey, Allocation] = {}
        self._ends: dict[JobKey, float] = {}
        self._endings: list[tuple[float, JobKey]] = []
        half_life_s = max((past.half_life_s for past in cycle.snapshot.usage_history), default=HALF_LIFE_S)
        self._history = UsageHistory(half_life_s)
        self._history.restore(_records(cycle.snapshot), self.now)
        self._history.advance(self.now, self.occupancy.usage)
        self.booked = PlayedBookings(self._cycle_now())

    @property
    def now(self) -> float:
        return self.moment.at

    @property
    def next_ending(self) -> float | None:
        """None if no running job has a known end."""
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

    def open_cycle(self) -> Cycle:
        """A cycle about the cluster as it is now. It allocates in the cluster's own occupancy."""
        self.moment = Moment(self.now)
        cycle = self._cycle_now()
        self.booked.follow(cycle)
        return cycle

    def _cycle_now(self) -> Cycle:
        running = self.running
        snapshot = replace(self._snapshot, accounting=None, evicted=tuple(self.evicted))
        return Cycle(
            snapshot, self.policy, self.inventory, self.tree, running, (), self.moment,
            PlayedAccounts(self.occupancy, running),
        )  # fmt: skip

    def go_to(self, at: float) -> None:
        if at > self.now:
            self._history.advance(at, self.occupancy.usage)
            self.moment.at = at

    def change_queues(self, queues: tuple[TenantQueue, ...], standings: tuple[BookingStanding, ...]) -> None:
        """Bookings begin or end: the same queues get other quotas, and requests of waiting jobs are resolved again."""
        self.booked.clear()
        before = self.occupancy
        self.tree = QueueTree.of(queues, self.inventory)
        usage = Usage(self.tree)
        for allocation in self._allocations.values():
            usage.add(allocation.charge)
        self.occupancy = Occupancy(before.ledger, usage, before.fit_cache.scorer)
        self.resolve, self._last = RequestResolver(self.inventory, self.tree).resolve, None
        self._snapshot = replace(self._snapshot, bookings=standings)
        self.booked = PlayedBookings(self._cycle_now(), self.booked)
        jobs = [job for same in self.waiting.values() for job in same] + list(self.refused.values())
        asked = {job.key for job in self._snapshot.jobs if job.placement is None} - self.starts.keys()
        self.waiting, self.refused = {}, {}
        for job in jobs:
            (self.unstarted.add if self.wait(job) and job.key in asked else self.unstarted.discard)(job.key)

    def hold(self, job: Job, allocation: Allocation, since: float) -> None:
        """The job runs, and holds what is allocated already."""
        seconds = LEAVING_S if job.evicting else self._draw(job, max(0.0, self.now - since))
        self._jobs[job.key], self._allocations[job.key] = job, allocation
        self._ends[job.key] = at = inf if seconds is None else self.now + seconds
        if at < inf:
            heapq.heappush(self._endings, (at, job.key))
        self.booked.note(job, allocation, gave_back=False)

    def wait(self, job: Job) -> Request | None:
        """The job waits from now on. Returns its request, or None if it can never start."""
        request = self.resolve(job)
        if isinstance(request, Refusal):
            self.refused[job.key] = job
            return None
        insort(self.waiting.setdefault(request, []), job, key=order_in_queue)
        return request

    def start(self, entry: Entry, allocation: Allocation, at: float) -> None:
        """The job starts at the place that a cycle gave it, where it is allocated already."""
        self._remove(entry.job)
        self._history.charge_penalty(entry.job, allocation.charge.milli, self.occupancy.usage)
        self._note_start(entry.job, at)
        until = entry.backfilled_until
        started = replace(entry.job, placement=entry.placement, admitted_at=self.now, backfilled_until=until)
        self.hold(started, allocation, self.now)

    def start_nominated(self, job: Job, placement: Placement) -> None:
        """The job starts at its nominated place once the jobs that were asked to leave it are gone."""
        request = self.resolve(job)
        if isinstance(request, Refusal) or job not in self.waiting.get(request, ()):
            return
        allocation = allocation_of(job, placement, self.inventory, self.tree)
        self._remove(job)
        self.occupancy.allocate(allocation)
        self._note_start(job, self.now + LEAVING_S)
        self.hold(replace(job, placement=placement, admitted_at=self.now), allocation, self.now)

    def end_next(self) -> None:
        """Go on to the next ending: the job is gone, or waits again if it was evicted."""
        at = self.next_ending
        assert at is not None
        self.go_to(at)
        _, key = heapq.heappop(self._endings)
        job = self._give_back(key)
        if job.evicting:
            self._wait_again(job)

    def evict(self, keys: Iterable[JobKey]) -> None:
        """These jobs leave at once, and wait again; the time that they ran counts."""
        for key in keys:
            self.evicted.add(key)
            self._wait_again(self._give_back(key))

    def shrink(self, resize: Resize) -> None:
        """An elastic job goes on with fewer workers."""
        job, before = self._jobs[resize.job], self._allocations[resize.job]
        after = allocation_of(job, resize.placement, self.inventory, self.tree)
        self.occupancy.release(before)
        self.occupancy.allocate(after)
        self._jobs[job.key], self._allocations[job.key] = replace(job, placement=resize.placement), after
        self.booked.note(job, before, gave_back=True)

    def _wait_again(self, job: Job) -> None:
        ran_s = job.ran_s + int(max(0.0, self.now - (job.admitted_at or self.now)))
        bare = replace(
            job,
            placement=None,
            admitted_at=None,
            backfilled_until=None,
            evicting=False,
            ran_s=ran_s,
            requeued_at=self.now,
        )
        self.wait(bare)

    def _note_start(self, job: Job, at: float) -> None:
        if job.key in self.unstarted:
            self.unstarted.remove(job.key)
            self.starts[job.key] = at

    def _remove(self, job: Job) -> None:
        """The job does not wait any more."""
        request = self.resolve(job)
        assert isinstance(request, Request)
        jobs = self.waiting[request]
        del jobs[bisect_left(jobs, order_in_queue(job), key=order_in_queue)]
        if not jobs:
            del self.waiting[request]

    def _give_back(self, key: JobKey) -> Job:
        job, allocation = self._jobs.pop(key), self._allocations.pop(key)
        self.occupancy.release(allocation)
        self.booked.note(job, allocation, gave_back=True)
        del self._ends[key]
        return job


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
