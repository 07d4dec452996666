"""Jobs that hold a placement when the cycle begins, with what they hold, and by queue. Read-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.quota.tree import QueueTree


class RunningJobs:
    __slots__ = ("_backfilled", "_by_queue", "_elastic", "allocations", "by_key", "tree")

    def __init__(self, by_key: Mapping[JobKey, Job], allocations: Mapping[JobKey, Allocation], tree: QueueTree) -> None:
        self.by_key = by_key
        self.allocations = allocations
        """Key → everything the job holds, workers that are still leaving after a resize included."""
        self.tree = tree
        self._by_queue: dict[int, list[Job]] | None = None
        self._elastic: dict[int, list[Job]] = {}
        self._backfilled: dict[int, list[Job]] = {}

    def in_queue(self, queue: int) -> Sequence[Job]:
        """Jobs of this very queue, without those whose eviction was under way before this cycle."""
        if self._by_queue is None:
            self._by_queue = {}
            for job in self.by_key.values():
                index = self.tree.index.get(job.queue)
                if index is not None and not job.evicting:
                    self._by_queue.setdefault(index, []).append(job)
        return self._by_queue.get(queue, ())

    def backfilled_in_queue(self, queue: int) -> Sequence[Job]:
        """Those of them that started on GPUs which were kept for another job."""
        known = self._backfilled.get(queue)
        if known is None:
            known = self._backfilled[queue] = [job for job in self.in_queue(queue) if job.backfilled_until is not None]
        return known

    def elastic_in_queue(self, queue: int) -> Sequence[Job]:
        """Those of them that run with more workers than their minimum."""
        known = self._elastic.get(queue)
        if known is None:
            known = self._elastic[queue] = [
                job
                for job in self.in_queue(queue)
                if job.workers_max > job.workers_min and job.placement and job.placement.workers > job.workers_min
            ]
        return known
