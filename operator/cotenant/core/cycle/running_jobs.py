"""Jobs that hold a placement when the cycle begins, with what they hold, and by queue. Read-only.

What follows from them is worked out when it is first asked for, and kept: later cycles in which the same jobs run use
the same object (`Cycle.open`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf

import numpy as np

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.cycle.covered import CoveredJobs
from cotenant.core.cycle.holders import HolderTable
from cotenant.core.cycle.queue_jobs import NO_JOBS, QueueJobs
from cotenant.core.gpus.inventory import IntArray
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.quota.tree import QueueTree


class RunningJobs:
    def __init__(
        self,
        by_key: Mapping[JobKey, Job],
        allocations: Mapping[JobKey, Allocation],
        tree: QueueTree,
        before: RunningJobs | None = None,
    ) -> None:
        """`before`: running jobs of an earlier cycle, some of which may be the same."""
        self.by_key = by_key
        self.allocations = allocations
        """Key → everything the job holds, workers that are still leaving after a resize included."""
        self.tree = tree
        self._earlier = None if before is None else before._last_holders()
        self._of_queue: dict[int, QueueJobs] = {}
        self._uncovered: dict[tuple[int, int], IntArray] = {}

    @cached_property
    def holders(self) -> HolderTable:
        """The jobs as a table. Rows of jobs that an earlier cycle knew are not worked out again."""
        return HolderTable.of(self.by_key, self.allocations, self._earlier)

    def _last_holders(self) -> HolderTable | None:
        return self.holders if "holders" in self.__dict__ else self._earlier

    @cached_property
    def covered(self) -> CoveredJobs:
        """Jobs that lie inside the guarantee of each queue."""
        return CoveredJobs(self.tree, self.allocations, self.of_queue)

    def uncovered(self, kind: int, queue: int) -> IntArray:
        """Rows of `holders` of this kind that lie outside the guarantee of the queue."""
        known = self._uncovered.get((kind, queue))
        if known is None:
            table, inside = self.holders, self.covered.of(queue)
            rows = np.flatnonzero(table.kind == kind)
            known = rows[[(table.keys[row], False) not in inside for row in rows.tolist()]]
            self._uncovered[kind, queue] = known
        return known

    def of_queue(self, queue: int) -> QueueJobs:
        """Jobs of this very queue."""
        known = self._of_queue.get(queue)
        if known is None:
            jobs = self._by_queue.get(queue)
            known = QueueJobs.of(jobs, self.allocations, self.tree) if jobs else NO_JOBS
            self._of_queue[queue] = known
        return known

    @cached_property
    def _by_queue(self) -> Mapping[int, Sequence[Job]]:
        found: dict[int, list[Job]] = {}
        for job in self.by_key.values():
            index = self.tree.index.get(job.queue)
            if index is not None and not job.evicting:
                found.setdefault(index, []).append(job)
        return found

    @cached_property
    def elastic(self) -> Sequence[Job]:
        """Jobs that may run with more workers than their minimum."""
        return [job for job in self.by_key.values() if job.workers_max > job.workers_min]

    @cached_property
    def to_move(self) -> Sequence[Job]:
        """Jobs that an administrator asked to move, by key."""
        return sorted((job for job in self.by_key.values() if job.move_asked), key=lambda job: job.key)

    @cached_property
    def incomplete(self) -> Sequence[JobKey]:
        """Jobs that hold something which no node lists."""
        return [key for key, allocation in self.allocations.items() if allocation.missing]

    @cached_property
    def leaving(self) -> Sequence[Job]:
        """Jobs of which an eviction or a resize was under way before this cycle."""
        return [job for job in self.by_key.values() if job.evicting or job.resizing_from is not None]

    @cached_property
    def longest(self) -> Sequence[tuple[str, JobKey]]:
        """(class of GPUs, job) of the two preemptible jobs and the two other jobs with the longest `maxRuntime` there.

        Jobs that leave are left out. Whatever the tenure limit is, the two jobs that may hold GPUs longest are among
        these four.
        """
        found: dict[tuple[str, bool], list[tuple[float, JobKey]]] = {}
        for key, allocation in self.allocations.items():
            job = self.by_key[key]
            if job.evicting:
                continue
            is_limited = job.preemptible and job.queue in self.tree.index
            seconds = inf if job.max_runtime_s is None else float(job.max_runtime_s)
            for gpu_class in {bucket[0] for bucket, _ in allocation.charge.amounts}:
                longest = found.setdefault((gpu_class, is_limited), [])
                if len(longest) < 2 or seconds > longest[1][0]:
                    longest.append((seconds, key))
                    longest.sort(key=lambda one: -one[0])
                    del longest[2:]
        return [(gpu_class, key) for (gpu_class, _), longest in found.items() for _, key in longest]
