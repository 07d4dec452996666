"""Jobs of one very queue that hold a placement, with what is asked about them in every search for evictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.quota.tree import Bucket, QueueTree


@dataclass(frozen=True, slots=True, eq=False)
class QueueJobs:
    """Without jobs whose eviction was under way before this cycle, and without those of queues below."""

    jobs: Sequence[Job] = ()
    enlarged: Sequence[Job] = ()
    """Those that run with more workers than their minimum."""
    backfilled: Sequence[Job] = ()
    """Those that started on GPUs which were reserved for another job."""
    lowest_priority: int | None = None
    """As far as it is allowed; None: there are no jobs."""
    held: Mapping[Bucket, int] = field(default_factory=dict)
    """Milli-GPU that they hold."""

    @classmethod
    def of(cls, jobs: Iterable[Job], allocations: Mapping[JobKey, Allocation], tree: QueueTree) -> QueueJobs:
        """`jobs`: all of one queue, at least one."""
        all_of_it, enlarged, backfilled = list[Job](), list[Job](), list[Job]()
        held: dict[Bucket, int] = {}
        for job in jobs:
            all_of_it.append(job)
            if job.workers_max > job.workers_min and job.placement and job.placement.workers > job.workers_min:
                enlarged.append(job)
            if job.backfilled_until is not None:
                backfilled.append(job)
            for bucket, amounts in allocations[job.key].charge.amounts:
                held[bucket] = held.get(bucket, 0) + amounts.milli
        kinds = {(job.priority, bool(job.priority_class)): job for job in all_of_it}
        lowest = min(map(tree.allowed_priority, kinds.values()))
        return cls(all_of_it, enlarged, backfilled, lowest, held)


NO_JOBS = QueueJobs()
