"""Candidates for eviction in favour of a request, and their order: least lost work first.

*Preempt* takes from jobs of the same queue with lower priority. *Reclaim* takes from other queues what they borrow.
Let l be the lowest common ancestor of the two queues, and r and v its children on either path. Reclaim is allowed at l
if the beneficiary keeps r inside its guarantee, and the victim is not *covered* at v (see `covered`).

A third kind is *overran*: a backfilled job that has run longer than it declared. It leaves for a request of its own
queue that has no lower priority, and, if it is not covered, for a request of any other queue.

A fourth kind exists if a queue orders by attained service: a job that has had much GPU time leaves for one of equal
priority that has had less and has waited for long (`ServiceOrder.may_yield`), if no other job leaves for it. It is
reported as a preemption.

Surplus workers of elastic jobs leave before any job is evicted: for any job of their own queue, and for other queues if
they are borrowed. Cost of a victim: see `EvictionRules.lost_work`.

Evictions end: docs/design/0006-scheduling-core.md#proofs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, TypeAlias

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.eviction_candidate import CandidateList, EvictionCandidate
from cotenant.core.allocation.placements import cut, without_ranks
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.eviction_rules import EvictionRules
from cotenant.core.cycle.outcome import CycleOutcome
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import Job, Placement
from cotenant.core.model.plan import EvictionKind
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.queueing.service import ServiceOrder
from cotenant.core.quota.usage import Usage

_InOrder: TypeAlias = list[tuple[tuple[Any, ...], EvictionCandidate]]
"""Candidates in order, each with its sort key."""
_ORDER = itemgetter(0)


class CandidateFinder:
    """Candidates of one cycle. Lists are kept per queue, priority and guarantees of the request."""

    __slots__ = ("_covered", "_known", "_of_others", "_rules", "_running", "_service", "_tree", "parts")

    def __init__(self, running: RunningJobs, inventory: Inventory, rules: EvictionRules, service: ServiceOrder) -> None:
        """`service`: which jobs yield to others of their own queue and priority."""
        self._running = running
        self._tree = running.tree
        self.parts = JobParts(running, inventory, rules)
        self._rules = rules
        self._service = service
        self._covered = running.covered
        self._known: dict[tuple[int, int, bool, frozenset[int], bool, int | None], CandidateList] = {}
        self._of_others: dict[tuple[int, int, bool], _InOrder] = {}
        """(queue, its ancestor below the common one, whether the request reclaims) → candidates of that queue."""

    def candidates(
        self, request: Request, usage: Usage, *, guarantee_waits: bool, above: int | None = None
    ) -> CandidateList:
        """Jobs and surplus workers that may leave for the request. Some may have been asked to leave already.

        `usage`: after the evictions that are under way. `guarantee_waits`: a job inside its guarantee found no place in
        this cycle, so requests outside theirs preempt nothing. `above`: see `ServiceOrder.evicts_above`.
        """
        levels = frozenset(
            queue for queue in self._tree.paths[request.queue] if within_guarantee(usage, request, queue)
        )
        preempts = request.queue in levels or not guarantee_waits
        above = above if preempts else None
        key = (request.queue, request.job.priority, bool(request.job.priority_class), levels, preempts, above)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._list(request, levels, preempts=preempts, above=above)
        return known

    def _list(self, request: Request, levels: frozenset[int], *, preempts: bool, above: int | None) -> CandidateList:
        found = _in_order(self._from_own_queue(request, preempts=preempts, above=above))
        for queue in range(len(self._tree.queues)):
            if (fork := self._tree.below_common_ancestor(request.queue, queue)) is not None:
                own, other = fork
                found += self._of_other_queue(queue, other, reclaims=own in levels)
        found.sort(key=_ORDER)  # merges sorted lists, which is cheap
        surplus = [candidate for _, candidate in found if not candidate.is_job]
        return CandidateList(surplus, [candidate for _, candidate in found if candidate.is_job])

    def _from_own_queue(self, request: Request, *, preempts: bool, above: int | None) -> Iterator[EvictionCandidate]:
        """Surplus of any job; whole jobs of lower priority."""
        own = self._running.of_queue(request.queue)
        has_lower = own.lowest_priority is not None and own.lowest_priority < request.job.priority
        if not (has_lower or own.enlarged or above is not None or any(map(self._rules.has_overrun, own.backfilled))):
            return
        for job in map(self._rules.with_allowed_priority, own.jobs):
            if job.resizing_from is None:
                yield from self.parts.surplus(job, EvictionKind.PREEMPTED)
                lower = job.priority < request.job.priority
                by_class = lower and bool(request.job.priority_class)
                if not preempts or not self._rules.may_be_evicted(job, at_once=by_class):
                    continue
                if lower:
                    yield self.parts.minimum(job, EvictionKind.PREEMPTED)
                elif job.priority > request.job.priority:
                    continue
                elif self._rules.has_overrun(job):
                    yield self.parts.minimum(job, EvictionKind.OVERRAN)
                elif above is not None and self._service.may_yield(job, above):
                    yield replace(self.parts.minimum(job, EvictionKind.PREEMPTED), level=self._service.level(job))

    def _of_other_queue(self, queue: int, other: int, *, reclaims: bool) -> _InOrder:
        """Candidates of another queue; the same for all requests with equal `reclaims`, so they are listed once."""
        known = self._of_others.get((queue, other, reclaims))
        if known is None:
            found = self._from_other_queue(queue, other, reclaims=reclaims)
            known = self._of_others[queue, other, reclaims] = _in_order(found)
        return known

    def _from_other_queue(self, queue: int, other: int, *, reclaims: bool) -> Iterator[EvictionCandidate]:
        """Candidates among what the queue borrows. Any request may have surplus workers and jobs that have overrun;
        only a request inside its guarantee may have other whole jobs. `other`: the child of the common ancestor that is
        the queue itself or above it.
        """
        if self._covered.covers_all(other):
            return
        some = () if reclaims else self._in_question(queue)
        covered = self._covered.of(other) if reclaims or some else frozenset()
        for job in self._running.of_queue(queue).jobs if reclaims else some:
            if job.resizing_from is not None:
                continue
            overran = self._rules.has_overrun(job)
            may_leave = (reclaims or overran) and (job.key, False) not in covered
            if may_leave or (job.key, True) not in covered:
                yield from self.parts.surplus(job, EvictionKind.RECLAIMED)
            if may_leave and self._rules.may_be_evicted(job, at_once=reclaims):
                yield self.parts.minimum(job, EvictionKind.RECLAIMED if reclaims else EvictionKind.OVERRAN)

    def _in_question(self, queue: int) -> Sequence[Job]:
        """Jobs of a queue that may give something to a request outside its guarantee."""
        there = self._running.of_queue(queue)
        known = {job.key for job in there.enlarged}
        late = (job for job in there.backfilled if job.key not in known and self._rules.has_overrun(job))
        return [*there.enlarged, *late]


class JobParts:
    """A running job as candidates for eviction: its surplus workers, and the whole job without them.

    A job always leaves by these parts. So a job that leaves for two reasons gives back each part once.
    """

    __slots__ = ("_inventory", "_rules", "_running")

    def __init__(self, running: RunningJobs, inventory: Inventory, rules: EvictionRules) -> None:
        self._running, self._inventory, self._rules = running, inventory, rules

    def surplus(self, job: Job, kind: EvictionKind) -> Iterator[EvictionCandidate]:
        """Workers above the minimum, the last ranks first."""
        placement = job.placement
        if placement is None or job.workers_max <= job.workers_min:
            return
        stretches = surplus_stretches(job.workers_min, placement.workers)
        first_rank = {part.node: min(worker.rank for worker in part.ranks) for part in placement.nodes}
        for ranks, part in zip(stretches, cut(placement, stretches), strict=True):
            allocation = self._allocation(job, part)
            shared = {self._inventory.row_of.get(node) for node, first in first_rank.items() if first < ranks.start}
            yield self._candidate(job, allocation.without_pods(shared), kind, ranks)

    def minimum(self, job: Job, kind: EvictionKind) -> EvictionCandidate:
        """The whole job, without its surplus workers, which are candidates of their own."""
        allocation = self._running.allocations[job.key]
        placement = job.placement
        if placement is not None and job.workers_max > job.workers_min:
            rest = without_ranks(placement, range(job.workers_min, placement.workers))
            allocation = self._allocation(job, rest)
        return self._candidate(job, allocation, kind, None)

    def _allocation(self, job: Job, placement: Placement) -> Allocation:
        return allocation_of(job, placement, self._inventory, self._running.tree)

    def _candidate(
        self, job: Job, allocation: Allocation, kind: EvictionKind, ranks: range | None
    ) -> EvictionCandidate:
        return EvictionCandidate(job, allocation, kind, self._rules.lost_work(job, allocation.charge.milli), ranks)


def _in_order(candidates: Iterable[EvictionCandidate]) -> _InOrder:
    return sorted(((candidate.order, candidate) for candidate in candidates), key=_ORDER)


def not_yet_leaving(candidates: Iterable[EvictionCandidate], outcome: CycleOutcome) -> Iterator[EvictionCandidate]:
    """Candidates without those that this cycle has already evicted."""
    evictions, shrunk = outcome.evictions, outcome.shrunk
    for candidate in candidates:
        key = candidate.job.key
        if key not in evictions and (candidate.ranks is None or candidate.ranks[-1] not in shrunk.get(key, ())):
            yield candidate


def surplus_stretches(least: int, workers: int) -> list[range]:
    """Ranks from `least` on, in stretches that leave together, last ranks first: one by one, and after `_ONE_BY_ONE` of
    them in stretches that double. So a job has few candidates, however many workers it holds."""
    found: list[range] = []
    stop = workers
    while stop > least:
        before = workers - stop
        start = max(least, stop - (1 if before < _ONE_BY_ONE else before))
        found.append(range(start, stop))
        stop = start
    return found


_ONE_BY_ONE = 16
