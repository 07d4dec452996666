"""Cost of an eviction, and protection from it.

A job is protected in its first minutes (`Policy.protected_runtime_s`, or its queue's time if that is longer). Two kinds
of job evict it nevertheless: one of the same queue with a higher PriorityClass (administrators make those), and one of
a queue that asks for what it is guaranteed. A job that was evicted is not evicted again before a job arrives or
departs, or anything else changes: see `victims`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.policy import Policy
from cotenant.core.quota.tree import QueueTree


@dataclass(frozen=True, slots=True, eq=False)
class EvictionRules:
    tree: QueueTree
    policy: Policy
    moment: Moment
    evicted: Collection[JobKey] = frozenset()
    """Jobs that were evicted since anything last arrived, departed or changed."""
    protects: bool = True
    """False: as if no job were protected, to find out which jobs wait because of protection."""

    def may_be_evicted(self, job: Job, *, at_once: bool = False) -> bool:
        """True if the job may be evicted for another. `at_once`: even if it is protected."""
        if not job.preemptible or job.key in self.evicted:
            return False
        return at_once or self.protected_until(job) is None

    def protected_until(self, job: Job) -> float | None:
        """Unix seconds; None if the job is not protected, or no longer. Of a job that has overrun, only the policy's
        time counts, not its queue's."""
        if not self.protects:
            return None
        least = self.protected_in(None if self.has_overrun(job) else self.tree.index.get(job.queue))
        until = None if job.admitted_at is None or least <= 0 else job.admitted_at + least
        return None if until is None or self.moment.has_come(until) else until

    def protected_in(self, queue: int | None) -> int:
        """Protected time of jobs in this queue. None: of a job that has overrun, or that is in no queue of the tree."""
        least = self.policy.protected_runtime_s
        return least if queue is None else max(least, self.tree.queues[queue].protected_runtime_s)

    def has_overrun(self, job: Job) -> bool:
        """True if the job was backfilled on GPUs reserved for another job, and has not ended when it declared to."""
        return job.backfilled_until is not None and self.moment.has_come(job.backfilled_until)

    def with_allowed_priority(self, job: Job) -> Job:
        """The running job with the priority that counts: its own, limited to what its queue allows."""
        allowed = self.tree.allowed_priority(job)
        return job if allowed == job.priority else replace(job, priority=allowed)

    def lost_work(self, job: Job, milli: int) -> int:
        """Cost of evicting `milli` of the job, in milli-GPU-seconds: work since its last checkpoint, and one restart.

        Example: 2 GPUs, checkpoint 300 s ago, restart 60 s → 720 GPU-seconds. For a job that has overrun it is 0, so
        that it leaves before all others. For an idle job it is one second, so that it leaves before jobs that compute.
        The cost changes with time, so a caller that decides by it pins the moment.
        """
        if self.has_overrun(job):
            return 0
        if job.idle:
            return milli
        since = max(job.admitted_at or job.submitted_at, job.last_checkpoint_at or 0.0)
        return milli * (max(0, int(self.moment.at - since)) + self.policy.restart_cost_s)
