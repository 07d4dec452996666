"""Who may be asked to leave for whom, and in which order: least lost work first.

*Preempt* takes from jobs of the same queue with lower priority. *Reclaim* takes from other queues what they borrow.
Let l be the lowest common ancestor of the two queues, and r and v its children on either path. Reclaim is allowed at l
if the beneficiary keeps r inside its guarantee, and the victim is not *covered* at v.
Covered at v: walking v's jobs from the oldest admission on, v's guarantee has room for it (jobs that do not fit are
passed over; surplus workers of elastic jobs come after every job's minimum).

Why reclaim cannot ping-pong, on trees as well: let Φ be the sum of covered milli-GPU, over all queues of the tree. The
victim is uncovered at v, so v's sum does not fall, and above l both lie in the same subtrees. The beneficiary keeps r
inside its guarantee, so all of r's jobs are covered and r's sum grows by the whole job. So a reclaim raises Φ at its
level; admissions into free room come last in the walk and displace nobody; Φ is bounded by the guarantees. Without
arrivals and departures reclaims therefore end. Preemption raises the priorities that run in one queue, and never acts
for a job outside its guarantee while a job inside its guarantee waits, so the two cannot feed each other.

Surplus of an elastic job yields before any job is evicted: to any job of its own queue, and to other queues where it
is borrowed. Cost of a victim: milli-GPU × seconds since its last checkpoint (or start) plus the cost of one restart.
Example: 2 GPUs, checkpoint 300 s ago, restart 60 s → 720 GPU-seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cotenant.core.allocation.allocation import allocation_of
from cotenant.core.allocation.eviction_candidate import CandidateList, EvictionCandidate
from cotenant.core.allocation.placements import single_rank, without_ranks
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.model.objects import Job, JobKey, Placement
from cotenant.core.model.plan import EvictionKind
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.quota.tree import Bucket, QueueTree, QuotaLine


def candidates(cycle: Cycle, request: Request) -> CandidateList:
    """Drawn up once per queue, priority and standing of the request; see `still_there`."""
    levels = _levels(cycle, request)
    preempts = request.queue in levels or not cycle.entitled_waits
    key = (request.queue, request.job.priority, levels, preempts)
    known = cycle.candidates.get(key)
    if known is None:
        units = list(_from_own_queue(cycle, request, preempts))
        for queue in range(len(cycle.tree.queues)):
            if queue != request.queue:
                units.extend(_from_other_queue(cycle, request, queue, levels))
        units.sort(key=lambda unit: unit.order)
        known = cycle.candidates[key] = CandidateList(
            [unit for unit in units if unit.rank is not None], [unit for unit in units if unit.rank is None], 0
        )
    if known.stale(len(cycle.evicted) + len(cycle.shrunk)):
        known = cycle.candidates[key] = CandidateList(
            list(not_yet_evicted(cycle, known.surplus)),
            list(not_yet_evicted(cycle, known.whole)),
            len(cycle.evicted) + len(cycle.shrunk),
        )
    return known


def not_yet_evicted(cycle: Cycle, units: Iterable[EvictionCandidate]) -> Iterator[EvictionCandidate]:
    """Without those whom this cycle has already asked to leave."""
    gone, shrunk = cycle.evicted, cycle.shrunk
    for unit in units:
        key = unit.job.key
        if key not in gone and (unit.rank is None or unit.rank not in shrunk.get(key, ())):
            yield unit


def _from_own_queue(cycle: Cycle, request: Request, preempts: bool) -> Iterator[EvictionCandidate]:
    """Surplus of anybody; whole jobs of lower priority."""
    for job in cycle.running_in(request.queue):
        if job.resizing_from is None:
            yield from _surplus(cycle, job, EvictionKind.PREEMPTED)
            if preempts and job.priority < request.job.priority and job.preemptible and not protected(cycle, job):
                yield _minimum(cycle, job, EvictionKind.PREEMPTED)


def _from_other_queue(
    cycle: Cycle, request: Request, queue: int, levels: frozenset[int]
) -> Iterator[EvictionCandidate]:
    """What the queue borrows: surplus for anybody, whole jobs for those inside their guarantee."""
    fork = cycle.tree.below_common_ancestor(request.queue, queue)
    if fork is None:
        return
    owed = fork[0] in levels
    covered_jobs = _covered_at(cycle, fork[1]) if owed or cycle.elastic_in(queue) else frozenset()
    for job in cycle.running_in(queue) if owed else cycle.elastic_in(queue):
        if job.resizing_from is not None:
            continue
        may_leave = owed and (job.key, False) not in covered_jobs
        if may_leave or (job.key, True) not in covered_jobs:
            yield from _surplus(cycle, job, EvictionKind.RECLAIMED)
        if may_leave and job.preemptible and not protected(cycle, job):
            yield _minimum(cycle, job, EvictionKind.RECLAIMED)


def _levels(cycle: Cycle, request: Request) -> frozenset[int]:
    """Queues on the request's path that stay inside their guarantee with it."""
    usage = cycle.open_later().usage
    return frozenset(step for step in cycle.tree.paths[request.queue] if within_guarantee(usage, request, step))


def protected(cycle: Cycle, job: Job) -> bool:
    queue = cycle.tree.queues[cycle.tree.index[job.queue]]
    least = max(cycle.policy.protected_runtime_s, queue.protected_runtime_s)
    return least > 0 and job.admitted_at is not None and cycle.snapshot.now - job.admitted_at < least


def lost_work(cycle: Cycle, job: Job, milli: int) -> int:
    """Milli-GPU-seconds: what was not saved, and one restart."""
    since = max(job.admitted_at or job.submitted_at, job.last_checkpoint_at or 0.0)
    return milli * (max(0, int(cycle.snapshot.now - since)) + cycle.policy.restart_cost_s)


def _surplus(cycle: Cycle, job: Job, kind: EvictionKind) -> Iterable[EvictionCandidate]:
    """Workers above the minimum, the last ranks first."""
    placement = job.placement
    if placement is None or job.workers_max <= job.workers_min:
        return
    for rank in range(placement.workers - 1, job.workers_min - 1, -1):
        holding = allocation_of(job, single_rank(placement, rank), cycle.inventory, cycle.tree)
        yield EvictionCandidate(job, holding, kind, lost_work(cycle, job, holding.charge.milli), rank)


def _minimum(cycle: Cycle, job: Job, kind: EvictionKind) -> EvictionCandidate:
    """The whole job, without the surplus workers, which are units of their own."""
    holding = cycle.allocation_of(job)
    placement = job.placement
    if placement is not None and job.workers_max > job.workers_min:
        rest = without_ranks(placement, range(job.workers_min, placement.workers))
        holding = allocation_of(job, rest, cycle.inventory, cycle.tree)
    return EvictionCandidate(job, holding, kind, lost_work(cycle, job, holding.charge.milli))


def _covered_at(cycle: Cycle, queue: int) -> frozenset[tuple[JobKey, bool]]:
    known = cycle.covered.get(queue)
    if known is None:
        inside = [job for below in cycle.tree.subtree(queue) for job in cycle.running_in(below)]
        known = cycle.covered[queue] = covered_by_guarantee(cycle, queue, inside)
    return known


def covered_by_guarantee(cycle: Cycle, queue: int, jobs: Iterable[Job]) -> frozenset[tuple[JobKey, bool]]:
    """(job, is this its surplus?) that the queue's guarantee has room for, oldest admission first."""
    tree = cycle.tree
    room = {line.index: line.guaranteed for line in tree.quotas_of[queue] if line.quota.guaranteed}
    found: set[tuple[JobKey, bool]] = set()
    if not any(room.values()):
        return frozenset()
    ordered = sorted(jobs, key=lambda job: (job.admitted_at or 0.0, job.key))
    for extra in (False, True):
        for job in ordered:
            placement: Placement | None = job.placement
            workers = placement.workers if placement is not None else 0
            part = workers - job.workers_min if extra else min(workers, job.workers_min)
            if part <= 0:
                continue
            amounts = {
                bucket: -(-milli * part // workers) for bucket, milli, _ in cycle.allocation_of(job).charge.amounts
            }
            if _claim(tree, queue, room, amounts):
                found.add((job.key, extra))
    return frozenset(found)


def _claim(tree: QueueTree, queue: int, room: dict[int, int], amounts: dict[Bucket, int]) -> bool:
    needs: dict[int, int] = {}
    for bucket, milli in amounts.items():
        lines: list[QuotaLine] = [line for line in tree.quotas_of[queue] if line.index in room and line.matches(bucket)]
        if not lines:
            return False
        for line in lines:
            needs[line.index] = needs.get(line.index, 0) + milli
    if any(room[number] < milli for number, milli in needs.items()):
        return False
    for number, milli in needs.items():
        room[number] -= milli
    return True
