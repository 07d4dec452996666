"""The turns of one cycle of a play: who starts, on what, who leaves for whom, for whom places are kept.

The rules are the production core's, each called where the production cycle calls it: order of queues, search for a
place, backfill, victims, reservations by declared endings. Left out are reasons and advice. Of equal
jobs only the first takes a turn, because where it finds no place the others find none, but for backfill.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from cotenant.core.actions.backfill import Backfill, Reservations
from cotenant.core.actions.evict import departures, find_victims
from cotenant.core.actions.eviction_rules import EvictionRules
from cotenant.core.actions.start_bounds import waiting_order
from cotenant.core.actions.victims import CandidateFinder
from cotenant.core.allocation.eviction_candidate import CandidateList
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.outcome import CycleOutcome
from cotenant.core.cycle.search import PlacementResult, find, headroom
from cotenant.core.explain.forecast import EndingList, Forecast
from cotenant.core.model.objects import Job, JobKey, TimeOrder
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.outlook.collecting import Collecting
from cotenant.core.outlook.played_cluster import PlayedCluster
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.queueing.order import QueueOrder, order_in_queue

_NO_SPACE: Final = Refusal(reason=Reason.WAITING_FOR_GPUS, message="")


class Turns:
    """One cycle, and the turns of jobs that come before anything ends. `close` gives back what is kept for others."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self._cluster = cluster
        self._service = cluster.service()
        cluster.settle_declared()
        cluster.booked.settle()
        self._booked = cluster.booked
        self._reservations = Reservations(cluster.moment, cluster.policy.reserve_within_s, cluster.booked)
        self._refused: set[Request] = set()
        self._guarantee_waits = False
        self._outcome = CycleOutcome()
        self._running = cluster.running
        self._candidates: CandidateFinder | None = None
        self._usage = cluster.occupancy.usage.copy()
        """As the order sees it: who is asked to leave in a cycle counts until its end."""
        self._rules = EvictionRules(cluster.tree, cluster.policy, cluster.moment, frozenset(cluster.evicted))
        self._collecting = Collecting(cluster, self._rules)
        self._next_overdue = inf
        """When somebody will have waited too long who has not yet."""
        self._kept_for: dict[JobKey, Job] = {}
        self._too_long: dict[Request, float] = {}
        """Declared run time with which one of equal jobs was not backfilled."""
        self._is_by_age = {
            queue.name: cluster.tree.order(index) is TimeOrder.AGE for index, queue in enumerate(cluster.tree.queues)
        }
        self._may_evict_later = False
        """Somebody found no victims who may find some when jobs have run for longer."""

    @property
    def evicted(self) -> bool:
        """Jobs had to leave, who may have a turn again."""
        return bool(self._outcome.evictions)

    def of_all(self) -> Iterator[bool]:
        """Turns until no job starts any more, one at a time."""
        cluster, usage = self._cluster, self._usage
        borrowers = self._collect_for_overdue()
        has_overdue = bool(borrowers or self._collecting)
        heads = self._heads()
        asked = {job.key: request for job, request in heads}

        def is_within(queue: int, job: Job) -> bool:
            return within_guarantee(usage, asked[job.key], queue)

        jobs = [job for job, _ in heads]
        order = QueueOrder(cluster.tree, usage, cluster.shares(), is_within, jobs, turn=self._service.turn)
        for job in order:
            request = asked[job.key]
            if borrowers and not is_within(cluster.tree.index[job.queue], job):
                self._collect_in_turn(borrowers)
                borrowers = []
            if not has_overdue or self._still_waits(job, request):
                self._take(job, request)
            if (following := self._following(job, request)) is not None:
                asked[following.key] = request
                order.insert(following)
            yield True

    def of_one(self, job: Job, request: Request) -> bool:
        """The turn of a job that has just come; false where all need a turn again."""
        cluster = self._cluster
        if (
            self._next_overdue <= cluster.now
            or self._may_evict_later
            or cluster.has_overrun()
            or cluster.has_outlived()
        ):
            return False
        if any(not self._is_behind(job, other) for other in self._kept_for.values()):
            return False
        self._take(job, request)
        return True

    def close(self) -> None:
        for kept in self._reservations.all():
            if not kept.is_collected:
                self._cluster.occupancy.release(kept.allocation)
        self._reservations.clear()
        self._collecting.close()

    def _heads(self) -> list[tuple[Job, Request]]:
        """The next job of each kind of request, without those for which places are collected."""
        collecting = self._collecting
        found = []
        for request, jobs in self._cluster.waiting.items():
            others = [job for job in jobs if job not in collecting] if collecting else jobs
            if others:
                found.append((self._first(others), request))
        return found

    def _still_waits(self, job: Job, request: Request) -> bool:
        """The job has not been given a place meanwhile, and none is kept for it."""
        waiting = self._cluster.waiting.get(request, ())
        return job not in self._collecting and any(other is job for other in waiting)

    def _collect_for_overdue(self) -> list[Request]:
        """Turns of entitled jobs that have waited too long; returns the requests of those that have to borrow."""
        heads = [(jobs[0], request) for request, jobs in self._cluster.waiting.items()]
        since = (self._collecting.overdue_since(job) for job, _ in heads)
        self._next_overdue = min((at for at in since if at > self._cluster.now), default=inf)
        entitled, borrowers = self._collecting.overdue(heads)
        self._collect_in_turn(entitled)
        return borrowers

    def _collect_in_turn(self, requests: Iterable[Request]) -> None:
        """Turns of jobs that have waited too long, one after the other, who has waited longest first."""
        waiting = self._cluster.waiting
        heap = [(waiting_order(waiting[one][0]), number, one) for number, one in enumerate(requests) if one in waiting]
        heapq.heapify(heap)
        while heap:
            _, number, request = heapq.heappop(heap)
            if self._collect_for(request) and (jobs := waiting.get(request)):
                heapq.heappush(heap, (waiting_order(jobs[0]), number, request))

    def _collect_for(self, request: Request) -> bool:
        """The turn of the oldest job of this kind, if it is overdue: it starts, or a place is kept for it. True if it
        starts, and the next one has its turn."""
        with self._booked.opened_to(request.queue):
            return self._collect_place(request)

    def _collect_place(self, request: Request) -> bool:
        cluster, job = self._cluster, self._cluster.waiting[request][0]
        if self._collecting.overdue_since(job) > cluster.now:
            return False
        if request in self._refused or self._reservations.is_claimed(request):
            return False
        place = find(cluster.occupancy, request, request.workers) or self._evict_for(job, request)
        if place is None and (candidates := self._collecting.candidates(request)).jobs:
            place = self._make_leave(job, request, candidates)
        if place is not None:
            cluster.start(job, request, place, None)
            self._usage.add(place.allocation.charge, 1)
            return True
        lacks_quota = not self._waits_for_space(request)
        within = within_guarantee(cluster.occupancy.usage, request, request.queue)
        if self._collecting.keep_place(job, request, self._reservations, for_quota=lacks_quota):
            self._guarantee_waits |= within
            self._refused.add(request)
        return False

    def _first(self, jobs: list[Job]) -> Job:
        """The one of equal jobs that is next."""
        return jobs[0] if self._is_by_age[jobs[0].queue] else min(jobs, key=self._service.turn)

    def _following(self, job: Job, request: Request) -> Job | None:
        """The next of equal jobs that is to have a turn: where they find no place, the next that may be backfilled."""
        jobs = self._cluster.waiting.get(request)
        if jobs is None:
            return None
        if request not in self._refused:
            return self._first(jobs)
        kept_until = [kept.starts_at for kept in self._reservations.all()]
        kept_until += [place.booking.starts_at for place in self._booked.places]
        last = max(kept_until, default=0.0) - self._cluster.now
        too_long = self._too_long.get(request, inf)
        for other in jobs[bisect_right(jobs, order_in_queue(job), key=order_in_queue) :] if last > 0 else ():
            runtime_s = other.max_runtime_s or other.expected_runtime_s
            if runtime_s is not None and runtime_s <= last and runtime_s < too_long:
                return other
        return None

    def _is_behind(self, job: Job, other: Job) -> bool:
        return other.queue == job.queue and self._service.turn(other) < self._service.turn(job)

    def _take(self, job: Job, request: Request) -> None:
        with self._booked.opened_to(request.queue):
            self._take_place(job, request)

    def _take_place(self, job: Job, request: Request) -> None:
        cluster, known = self._cluster, request in self._refused
        place = None if known else find(cluster.occupancy, request, request.workers)
        until = None
        if place is None and (backfill := self._backfill(job, request)) is not None:
            place, until = backfill.result, backfill.ends_at
        if place is None and not known:
            place = self._evict_for(job, request)
        if place is not None:
            cluster.start(job, request, place, until)
            self._usage.add(place.allocation.charge, 1)
        elif not known:
            self._refuse(job, request)

    def _backfill(self, job: Job, request: Request) -> Backfill | None:
        """Where it finds no place, no equal job finds one that runs for longer."""
        runtime_s = job.max_runtime_s or job.expected_runtime_s
        if not self._booked and (runtime_s is None or not (self._kept_for or self._collecting)):
            return None
        found = self._reservations.backfill(job, request, self._cluster.occupancy)
        if found is None and runtime_s is not None:
            self._too_long[request] = min(runtime_s, self._too_long.get(request, inf))
        return found

    def _evict_for(self, job: Job, request: Request) -> PlacementResult | None:
        """A place that others had to leave, who wait again."""
        cluster, usage = self._cluster, self._cluster.occupancy.usage
        above = self._service.evicts_above(job)
        within = any(within_guarantee(usage, request, queue) for queue in cluster.tree.paths[request.queue])
        if not within and above is None and not cluster.has_lower(job) and not cluster.has_overrun():
            return None
        if self._candidates is None:
            self._candidates = CandidateFinder(self._running, cluster.inventory, self._rules, self._service)
        candidates = self._candidates.candidates(
            request, usage, self._outcome, guarantee_waits=self._guarantee_waits, above=above
        )
        return self._make_leave(job, request, candidates)

    def _make_leave(self, job: Job, request: Request, candidates: CandidateList) -> PlacementResult | None:
        cluster = self._cluster
        found = find_victims(cluster.occupancy, request, candidates, self._outcome, cluster.moment)
        leaving = dict.fromkeys(victim.job.key for victim in found.victims if victim.is_job) if found else {}
        if found is None or any(victim.job.key not in leaving for victim in found.victims):
            self._may_evict_later = True  # a job that shrinks is not played
            return None
        self._outcome.add(departures(found, job, self._outcome.shrunk))
        cluster.evict(leaving)
        return found.result

    def _refuse(self, job: Job, request: Request) -> None:
        """Its place is kept, where it is the first that waits for space in its classes and will have it soon enough."""
        self._refused.add(request)
        cluster = self._cluster
        self._guarantee_waits |= within_guarantee(cluster.occupancy.usage, request, request.queue)
        if not self._waits_for_space(request) or not self._reservations.claims_classes(request, _NO_SPACE):
            return
        endings = sorted((*cluster.declared_endings(), *self._booked.endings()), key=lambda ending: ending[:2])
        forecast = Forecast(cluster.occupancy, EndingList.of(endings), cluster.now)
        kept = self._reservations.reserve(job, request, forecast)
        if kept is not None:
            cluster.occupancy.allocate(kept.allocation)
            self._kept_for[kept.job] = job

    def _waits_for_space(self, request: Request) -> bool:
        """Quotas would let it start."""
        current = self._cluster.occupancy
        idle = current.lendable_idle()
        return any(
            headroom(current.usage, request, option, idle).workers >= request.workers for option in request.options
        )
