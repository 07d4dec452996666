"""Jobs that hold a placement when the cycle begins, with what they hold, and by queue. Read-only.

What follows from them is worked out once, where it is asked for, and is there in the next cycle too if they are the
same (`Cycle.open`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.queueing.priority_bounds import allowed_priority
from cotenant.core.quota.tree import Bucket, QueueTree
from cotenant.core.snapshot.accounting import Accounting


class RunningJobs:
    __slots__ = (
        "_backfilled",
        "_by_queue",
        "_elastic",
        "_held",
        "_incomplete",
        "_leaving",
        "_longest",
        "_lowest",
        "_may_grow",
        "_to_move",
        "allocations",
        "by_key",
        "carried",
        "kept",
        "tree",
    )

    def __init__(
        self,
        by_key: Mapping[JobKey, Job],
        allocations: Mapping[JobKey, Allocation],
        tree: QueueTree,
        before: RunningJobs | None = None,
    ) -> None:
        """`before`: of an earlier cycle, some of which may be the same."""
        self.by_key = by_key
        self.allocations = allocations
        """Key → everything the job holds, workers that are still leaving after a resize included."""
        self.tree = tree
        self._by_queue: dict[int, list[Job]] | None = None
        self._elastic: dict[int, list[Job]] = {}
        self._backfilled: dict[int, list[Job]] = {}
        self._held: dict[int, dict[Bucket, int]] = {}
        self._lowest: dict[int, int] = {}
        self._may_grow: Sequence[Job] | None = None
        self._to_move: Sequence[Job] | None = None
        self._leaving: Sequence[Job] | None = None
        self._incomplete: Sequence[JobKey] | None = None
        self._longest: dict[tuple[str, bool], list[tuple[float, JobKey]]] | None = None
        self.kept: dict[type, Any] = {}
        """What others have worked out of these jobs alone."""
        self.carried: dict[type, Any] = {} if before is None else before.carried
        """What they worked out of the jobs of earlier cycles, and can bring up to date."""

    def are_of(self, counted: Accounting) -> bool:
        return self.by_key is counted.running and self.allocations is counted.allocations and self.tree is counted.tree

    def in_queue(self, queue: int) -> Sequence[Job]:
        """Jobs of this very queue, without those whose eviction was under way before this cycle."""
        if self._by_queue is None:
            self._by_queue = {}
            for job in self.by_key.values():
                index = self.tree.index.get(job.queue)
                if index is not None and not job.evicting:
                    self._by_queue.setdefault(index, []).append(job)
        return self._by_queue.get(queue, ())

    @property
    def elastic(self) -> Sequence[Job]:
        """Jobs that may run with more workers than their minimum."""
        if self._may_grow is None:
            self._may_grow = [job for job in self.by_key.values() if job.workers_max > job.workers_min]
        return self._may_grow

    @property
    def to_move(self) -> Sequence[Job]:
        """Jobs that an administrator asked to move, by key."""
        if self._to_move is None:
            asked = [job for job in self.by_key.values() if job.move_asked]
            self._to_move = sorted(asked, key=lambda job: job.key)
        return self._to_move

    @property
    def incomplete(self) -> Sequence[JobKey]:
        """Jobs that hold something which no node lists."""
        if self._incomplete is None:
            self._incomplete = [key for key, allocation in self.allocations.items() if allocation.missing]
        return self._incomplete

    @property
    def leaving(self) -> Sequence[Job]:
        """Jobs of which an eviction or a resize was under way before this cycle."""
        if self._leaving is None:
            self._leaving = [job for job in self.by_key.values() if job.evicting or job.resizing_from is not None]
        return self._leaving

    def longest(self) -> Iterator[tuple[str, Job]]:
        """(class of GPUs, job): those that may run longest there by their maxRuntime and do not leave. Two of jobs that
        can be evicted and two of the others: whatever limits tenure, the two that may hold GPUs longest are of them."""
        if self._longest is None:
            self._longest = {}
            for key, allocation in self.allocations.items():
                job = self.by_key[key]
                if job.evicting:
                    continue
                is_limited = job.preemptible and job.queue in self.tree.index
                seconds = inf if job.max_runtime_s is None else float(job.max_runtime_s)
                for gpu_class in {bucket[0] for bucket, _, _ in allocation.charge.amounts}:
                    longest = self._longest.setdefault((gpu_class, is_limited), [])
                    if len(longest) < 2 or seconds > longest[1][0]:
                        longest.append((seconds, key))
                        longest.sort(key=lambda one: -one[0])
                        del longest[2:]
        for (gpu_class, _), longest in self._longest.items():
            yield from ((gpu_class, self.by_key[key]) for _, key in longest)

    def held_in_queue(self, queue: int) -> Mapping[Bucket, int]:
        """Milli-GPU that those of this very queue hold."""
        held = self._held.get(queue)
        if held is None:
            held = self._held[queue] = {}
            for job in self.in_queue(queue):
                for bucket, milli, _ in self.allocations[job.key].charge.amounts:
                    held[bucket] = held.get(bucket, 0) + milli
        return held

    def lowest_priority(self, queue: int) -> int | None:
        """Lowest priority in this very queue, as far as it is allowed; None: there are none."""
        jobs = self.in_queue(queue)
        if queue not in self._lowest and jobs:
            self._lowest[queue] = min(allowed_priority(self.tree, job) for job in jobs)
        return self._lowest.get(queue)

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
