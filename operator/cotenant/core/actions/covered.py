"""Jobs that lie inside a queue's guarantee, and are therefore never reclaimed.

Walking the jobs of a queue and all below it from the oldest admission on, a job is *covered* when the guarantee still
has as much as the job holds; jobs that do not fit are passed over; surplus workers of elastic jobs come after every
job's minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.quota.tree import Bucket, QuotaLine

Covered: TypeAlias = frozenset[tuple[JobKey, bool]]
"""(job, is this its surplus?)"""


class CoveredJobs:
    """Covered jobs of each queue, worked out once."""

    __slots__ = ("_known", "_running")

    def __init__(self, running: RunningJobs) -> None:
        self._running = running
        self._known: dict[int, Covered] = {}

    def of(self, queue: int) -> Covered:
        known = self._known.get(queue)
        if known is None:
            running = self._running
            inside = [job for below in running.tree.subtree(queue) for job in running.in_queue(below)]
            quotas = [quota for quota in running.tree.quotas_of[queue] if quota.quota.guaranteed]
            known = self._known[queue] = covered_by_guarantee(quotas, inside, running.allocations)
        return known


def covered_by_guarantee(
    quotas: Iterable[QuotaLine], jobs: Iterable[Job], allocations: Mapping[JobKey, Allocation]
) -> Covered:
    """Jobs for which the guarantees of `quotas`, all of one queue, suffice, oldest admission first."""
    left = {quota: quota.guaranteed for quota in quotas}
    if not any(left.values()):
        return frozenset()
    found: set[tuple[JobKey, bool]] = set()
    ordered = sorted(jobs, key=lambda job: (job.admitted_at or 0.0, job.key))
    for surplus in (False, True):
        for job in ordered:
            workers = job.placement.workers if job.placement is not None else 0
            part = workers - job.workers_min if surplus else min(workers, job.workers_min)
            if part <= 0:
                continue
            amounts = {bucket: -(-milli * part // workers) for bucket, milli, _ in allocations[job.key].charge.amounts}
            if _claim(left, amounts):
                found.add((job.key, surplus))
    return frozenset(found)


def _claim(left: dict[QuotaLine, int], amounts: Mapping[Bucket, int]) -> bool:
    """Take the amounts off what is left of every guarantee that matches, or nothing where one has too little."""
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
