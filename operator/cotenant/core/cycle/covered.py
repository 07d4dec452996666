"""Jobs that lie inside a queue's guarantee, and are therefore never reclaimed.

The jobs of a queue and of all queues below it are walked in a fixed order. A job is *covered* if as much of the
guarantee is left as the job holds; otherwise it is passed over. Jobs that a queue directly below covers come first,
then all others, each by priority, submission and key. Surplus workers of elastic jobs come after every job's minimum.
Example: 4 guaranteed, jobs of 3, 2 and 1 GPUs in order: the first and the third are covered.

The order does not depend on when a job was admitted. So a start never takes the cover from a job before it; that
evictions end builds on this (docs/design/0006-scheduling-core.md#proofs).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.cycle.queue_jobs import QueueJobs
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.quota.tree import Bucket, QueueTree, QuotaLine

Covered: TypeAlias = frozenset[tuple[JobKey, bool]]
"""(job, True for its surplus workers, False for its minimum)."""


class CoveredJobs:
    """Covered jobs of each queue, worked out once."""

    __slots__ = ("_all", "_allocations", "_known", "_of_queue", "_place", "_tree")

    def __init__(
        self,
        tree: QueueTree,
        allocations: Mapping[JobKey, Allocation],
        of_queue: Callable[[int], QueueJobs],
    ) -> None:
        """The arguments are those of `RunningJobs`."""
        self._tree, self._allocations, self._of_queue = tree, allocations, of_queue
        self._known: dict[int, Covered] = {}
        self._all: dict[int, bool] = {}
        self._place: dict[JobKey, tuple[int, float, JobKey]] = {}

    def of(self, queue: int) -> Covered:
        known = self._known.get(queue)
        if known is None:
            known = self._known[queue] = self._covered(queue)
        return known

    def covers_all(self, queue: int) -> bool:
        """True if all jobs of the queue and below it together hold no more than its guarantee: then all are covered,
        in any order. Always False if some job has surplus workers.
        """
        known = self._all.get(queue)
        if known is None:
            known = self._all[queue] = self._holds_no_more(queue)
        return known

    def _holds_no_more(self, queue: int) -> bool:
        below = [self._of_queue(one) for one in self._tree.subtree(queue)]
        held: dict[Bucket, int] = {}
        for one in below:
            for bucket, milli in one.held.items():
                held[bucket] = held.get(bucket, 0) + milli
        left = {quota: quota.guaranteed for quota in self._tree.quotas_of[queue] if quota.guaranteed}
        return _claim(left, held) and all(
            job.placement is not None and 0 < job.placement.workers <= job.workers_min
            for one in below
            for job in one.jobs
        )

    def _covered(self, queue: int) -> Covered:
        tree = self._tree
        inside = [job for below in tree.subtree(queue) for job in self._of_queue(below).jobs]
        if self.covers_all(queue):
            return frozenset((job.key, False) for job in inside)
        quotas = [quota for quota in tree.quotas_of[queue] if quota.guaranteed]
        if not quotas:
            return frozenset()
        inside.sort(key=self._place_of)
        first = frozenset[tuple[JobKey, bool]]().union(*(self.of(child) for child in tree.children[queue]))
        return covered_by_guarantee(quotas, inside, self._allocations, first)

    def _place_of(self, job: Job) -> tuple[int, float, JobKey]:
        """Place by priority, submission and key; the same in every queue above."""
        place = self._place.get(job.key)
        if place is None:
            place = -self._tree.allowed_priority(job), job.submitted_at, job.key
            self._place[job.key] = place
        return place


def covered_by_guarantee(
    quotas: Iterable[QuotaLine],
    jobs: Iterable[Job],
    allocations: Mapping[JobKey, Allocation],
    first: Collection[tuple[JobKey, bool]] = (),
) -> Covered:
    """Jobs, in the order given, for which the guarantees of `quotas` suffice; those in `first` come before the others.

    `quotas`: lines of one queue.
    """
    left = {quota: quota.guaranteed for quota in quotas}
    found: set[tuple[JobKey, bool]] = set()
    ordered = list(jobs)
    for surplus in (False, True):
        for job in sorted(ordered, key=lambda job: (job.key, surplus) not in first):
            workers = job.placement.workers if job.placement is not None else 0
            part = workers - job.workers_min if surplus else min(workers, job.workers_min)
            if part <= 0:
                continue
            charge = allocations[job.key].charge
            if _claim(left, {bucket: -(-amounts.milli * part // workers) for bucket, amounts in charge.amounts}):
                found.add((job.key, surplus))
    return frozenset(found)


def _claim(left: dict[QuotaLine, int], amounts: Mapping[Bucket, int]) -> bool:
    """Take the amounts off every guarantee that matches. False, and nothing is taken, if one has too little left."""
    wanted: dict[QuotaLine, int] = {}
    for bucket, milli in amounts.items():
        matching = [quota for quota in left if quota.matches(bucket)]
        if not matching:
            return False
        for quota in matching:
            wanted[quota] = wanted.get(quota, 0) + milli
    if any(left[quota] < milli for quota, milli in wanted.items()):
        return False
    for quota, milli in wanted.items():
        left[quota] -= milli
    return True
