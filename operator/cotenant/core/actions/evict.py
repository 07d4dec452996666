"""Preempt and reclaim: a minimal set of victims that lets one job start, found in a trial before any is asked to leave.

For an order of candidates:
1. Release one candidate after the other until the job fits. Releasing more never hurts, so the shortest sufficient
   prefix is found by doubling steps and bisection.
2. Place the job.
3. *Fill back*: allocate again every victim whose own GPUs are still free, the most expensive first. No single victim of
   those that remain could stay.
Two orders are tried: by lost work, and node by node with the cheapest node first. The one that loses less work wins.
Surplus workers of elastic jobs alone are tried before both. If all candidates together do not suffice, none leaves, and
no second order is tried.

After Kueue's minimal preemption (remove until it fits, fill back) and KAI-Scheduler's scenario solver; here the answer
"impossible" is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from cotenant.core.actions.victims import not_yet_leaving
from cotenant.core.allocation.allocation import Allocation, AllocationBatch
from cotenant.core.allocation.eviction_candidate import CandidateList, EvictionCandidate
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.placements import without_ranks
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.gallop import gallop
from cotenant.core.cycle.outcome import CycleOutcome, Departures
from cotenant.core.cycle.search import PlacementResult, find, fits, within_guarantees
from cotenant.core.model.formatting import counted, format_gpus
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import WHOLE, Job, JobKey
from cotenant.core.model.plan import Evict, EvictionKind, Resize
from cotenant.core.queueing.fair_share import charge_within_guarantee

_FEW = 1_024
"""Candidates that are released together before the search for the shortest sufficient prefix."""


@dataclass(frozen=True, slots=True, eq=False)
class VictimSet:
    """Victims, and the place that becomes free when they leave."""

    victims: tuple[EvictionCandidate, ...]
    result: PlacementResult

    @property
    def cost(self) -> tuple[int, int]:
        return sum(victim.lost_work for victim in self.victims), len(self.victims)


def find_victims(
    occupancy: Occupancy, request: Request, candidates: CandidateList, outcome: CycleOutcome, moment: Moment
) -> VictimSet | None:
    """The cheapest sufficient victims, or None if all candidates together do not suffice.

    `occupancy`: after the evictions that are under way; it is left as it was.
    """
    for jobs in (candidates.jobs[:0], candidates.jobs):
        if not candidates.surplus and not jobs:
            continue
        orders = (not_yet_leaving(order, outcome) for order in _orders(request, candidates.surplus, jobs))
        most = len(candidates.surplus) + len(jobs)
        if (found := cheapest_set(occupancy, request, orders, moment, most=most)) is not None:
            return found
    return None


def _orders(
    request: Request, surplus: Sequence[EvictionCandidate], jobs: Sequence[EvictionCandidate]
) -> Iterator[list[EvictionCandidate]]:
    """Orders of the same candidates, each made when it is asked for."""
    yield [*surplus, *jobs]
    if jobs and request.workers * request.job.gpu.count > 1:
        yield [*surplus, *node_by_node(jobs)]


def departures(found: VictimSet, job: Job, shrunk: Mapping[JobKey, frozenset[int]]) -> Departures:
    """The evictions and resizes by which the victims leave in favour of `job`.

    `shrunk`: ranks of elastic jobs that the cycle has already asked to leave.
    """
    evictions = tuple(_eviction(victim, job) for victim in found.victims if victim.is_job)
    evicted = {eviction.job for eviction in evictions}
    leaving: dict[JobKey, set[int]] = {}
    resizes: dict[JobKey, Resize] = {}
    for victim in found.victims:
        key = victim.job.key
        if victim.ranks is not None:
            leaving.setdefault(key, set(shrunk.get(key, ()))).update(victim.ranks)
    for victim in found.victims:
        key = victim.job.key
        if key in leaving and key not in evicted and key not in resizes:
            resizes[key] = _shrink(victim.job, leaving[key], job)
    return Departures(evictions, tuple(resizes.values()), {key: frozenset(ranks) for key, ranks in leaving.items()})


def cheapest_set(
    occupancy: Occupancy,
    request: Request,
    orders: Iterable[Iterator[EvictionCandidate]],
    moment: Moment,
    *,
    most: int,
) -> VictimSet | None:
    """The cheapest of the minimal sets, one from each of these orders of the same candidates, at most so many."""
    sufficient: list[VictimSet] = []
    for order in orders:
        with occupancy.trial():
            released = _ReleasedPrefix(occupancy, order)
            if not released.shorten(request, most):
                return None  # all together do not suffice, so no other order helps
            moment.pin()  # the order is by work lost until now, so the decision cannot be reused
            victims = _minimal_set(occupancy, request, released)
        sufficient += [] if victims is None else [victims]
    return min(sufficient, key=lambda victims: victims.cost, default=None)


def _minimal_set(occupancy: Occupancy, request: Request, released: _ReleasedPrefix) -> VictimSet | None:
    """Victims among the released candidates of which none could stay, and the place that they leave to the request."""
    result = find(occupancy, request, request.workers)
    if result is None:
        return None
    occupancy.allocate(result.allocation)
    victims = _fill_back(occupancy, request, released, result.allocation)
    if not _reclaim_allowed(occupancy, request, result.allocation, victims):
        return None
    return VictimSet(tuple(victims), result)


class _ReleasedPrefix:
    """The first candidates of an order, released in a trial; as many as `resize` was last given."""

    __slots__ = ("_marks", "_occupancy", "_seen", "_source", "batch")

    def __init__(self, occupancy: Occupancy, source: Iterator[EvictionCandidate]) -> None:
        self.batch = AllocationBatch()
        self._occupancy = occupancy
        self._source = source
        self._seen: list[EvictionCandidate] = []
        self._marks: list[tuple[int, int]] = []
        """(candidates released, mark of the occupancy before), one for each stretch."""

    @property
    def candidates(self) -> Sequence[EvictionCandidate]:
        return self._seen[: self._count]

    @property
    def _count(self) -> int:
        return self._marks[-1][0] if self._marks else 0

    def reach(self, count: int) -> int:
        """`count`, or as many candidates as there are; never less than before."""
        stretch = list(islice(self._source, max(0, count - len(self._seen))))
        self._seen += stretch
        self.batch.extend(candidate.allocation for candidate in stretch)
        return min(count, len(self._seen))

    def shorten(self, request: Request, most: int) -> bool:
        """Release the shortest prefix with which the request fits; False if all candidates, `most`, do not suffice.

        Most searches fail, in every cycle again. So all candidates are tried first, unless they are many.
        """
        if most <= _FEW and not fits(self.resize(self.reach(most)), request):
            return False
        count = gallop(self.reach, lambda count: fits(self.resize(count), request))
        if count is not None:
            self.resize(count)
        return count is not None

    def resize(self, count: int) -> Occupancy:
        while self._count > count:
            self._occupancy.roll_back(self._marks.pop()[1])
        if self._count < count:
            start, mark = self._count, self._occupancy.mark
            self._occupancy.release_batch(self.batch, start, count)
            self._marks.append((count, mark))
        return self._occupancy


def _fill_back(
    occupancy: Occupancy, request: Request, released: _ReleasedPrefix, place: Allocation
) -> list[EvictionCandidate]:
    """Victims that must leave; the others are allocated again.

    Surplus workers never stay if their job's minimum leaves. A victim does not stay if the new job would then need more
    than other queues lend, or would lie outside a guarantee although it is not preemptible.
    """
    victims: list[EvictionCandidate] = []
    evicted: set[JobKey] = set()
    blocked = released.batch.blocked(occupancy.ledger).tolist()
    for index, candidate in reversed(list(enumerate(released.candidates))):
        stays = not blocked[index] and candidate.job.key not in evicted
        if stays and occupancy.fits(candidate.allocation, whole=not candidate.job.gpu.is_share):
            occupancy.allocate(candidate.allocation)
            guaranteed = request.job.preemptible or within_guarantees(occupancy, place.charge, is_counted=True)
            if guaranteed and _is_still_lent(occupancy, place):
                continue
            occupancy.release(candidate.allocation)
        victims.append(candidate)
        if candidate.is_job:
            evicted.add(candidate.job.key)
    return victims


def _is_still_lent(occupancy: Occupancy, place: Allocation) -> bool:
    if not occupancy.tree.limits_lending:
        return True
    with occupancy.trial():
        occupancy.release(place)
        return occupancy.within_lending_limits(place)


def _reclaim_allowed(
    occupancy: Occupancy, request: Request, place: Allocation, victims: Sequence[EvictionCandidate]
) -> bool:
    """True if, with the place allocated, every queue in whose name something is reclaimed is inside its guarantee."""
    tree = occupancy.tree
    reclaimed = {victim.job.queue for victim in victims if victim.kind is EvictionKind.RECLAIMED and victim.is_job}
    forks = {tree.below_common_ancestor(request.queue, tree.index[queue]) for queue in reclaimed}
    usage, charge = occupancy.usage, place.charge
    return all(fork is not None and charge_within_guarantee(usage, fork[0], charge, is_counted=True) for fork in forks)


def node_by_node(candidates: Sequence[EvictionCandidate]) -> list[EvictionCandidate]:
    """Candidates by node, the node with the least lost work per milli-GPU first; on a node in the given order."""
    lost_work: dict[int, int] = {}
    milli: dict[int, int] = {}
    on_row: dict[int, list[EvictionCandidate]] = {}
    for candidate in candidates:
        for node in candidate.allocation.nodes:
            lost_work[node.row] = lost_work.get(node.row, 0) + candidate.lost_work
            milli[node.row] = milli.get(node.row, 0) + sum(node.compute_milli)
            on_row.setdefault(node.row, []).append(candidate)
    ordered: dict[int, EvictionCandidate] = {}
    for row in sorted(on_row, key=lambda row: (lost_work[row] * WHOLE // max(1, milli[row]), -milli[row], row)):
        for candidate in on_row[row]:
            ordered.setdefault(id(candidate), candidate)
    return list(ordered.values())


def _eviction(victim: EvictionCandidate, job: Job) -> Evict:
    if victim.level:
        why = (
            f"Makes room for {job.key}, which has had less GPU time and has waited for long: queue {job.queue} orders"
            " its jobs by GPU time (fairShare.order)."
        )
    elif victim.kind is EvictionKind.PREEMPTED:
        higher = f"priority {job.priority} above {victim.job.priority}"
        why = f"Makes room for {job.key}, which has {higher} in queue {job.queue}."
    elif victim.kind is EvictionKind.COLLECTED:
        why = (
            f"Makes room for {job.key}, which has waited too long: this job used borrowed GPUs and has no maxRuntime,"
            " or it exceeded the tenure limit or the limit for borrowed GPUs."
        )
    elif victim.kind is EvictionKind.OVERRAN:
        why = (
            f"Makes room for {job.key}: this job started on GPUs that are reserved for another one, and has run longer"
            " than it declared (expectedRuntime, maxRuntime)."
        )
    else:
        milli = format_gpus(victim.allocation.charge.milli)
        why = (
            f"Queue {victim.job.queue} had borrowed these {milli} GPU; queue {job.queue} needs them back for {job.key}."
        )
    return Evict(job=victim.job.key, kind=victim.kind, in_favour_of=job.key, message=why)


def _shrink(victim: Job, ranks: Collection[int], job: Job) -> Resize:
    if victim.placement is None:
        raise ValueError(f"job {victim.key} holds nothing")
    return Resize(
        job=victim.key,
        placement=without_ranks(victim.placement, ranks),
        message=f"Gives back {counted(len(ranks), 'surplus worker')} so that {job.key} can start.",
    )
