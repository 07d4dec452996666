"""Cost of an eviction, and protection from it.

A job is protected in its first minutes (`Policy.protected_runtime_s`, or its queue's time if that is longer). Two
things pass over that: a PriorityClass, which an administrator made, of a job in the same queue; and a queue that asks
for what it is guaranteed. And a job that was evicted is not evicted again before anything arrives, departs or changes:
see `victims`.
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
    """False: as if no job were protected, to find out what protection is in the way of."""

    def may_be_evicted(self, job: Job, *, at_once: bool = False) -> bool:
        """True if it may be, for another job. `at_once`: whether or not it is protected."""
        return job.preemptible and job.key not in self.evicted and (at_once or not self.is_protected(job))

    def is_protected(self, job: Job) -> bool:
        """The job has not yet run for as long as the policy or its queue lets every job run; who has outlived its word
        is left in peace for the policy's time alone."""
        return self.protected_until(job) is not None

    def protected_until(self, job: Job) -> float | None:
        """Unix seconds; None where it is not protected, or not any more."""
        if not self.protects:
            return None
        least = self.protected_s(job)
        until = None if job.admitted_at is None or least <= 0 else job.admitted_at + least
        return None if until is None or self.moment.has_come(until) else until

    def protected_s(self, job: Job) -> int:
        """Seconds for which the job is left in peace from its start on."""
        return self.protected_in(None if self.has_overrun(job) else self.tree.index.get(job.queue))

    def protected_in(self, queue: int | None) -> int:
        """The same for who keeps to its word in a queue; None: it does not, or is in none, because that is gone, or
        what it holds is a claim of others."""
        least = self.policy.protected_runtime_s
        return least if queue is None else max(least, self.tree.queues[queue].protected_runtime_s)

    def has_overrun(self, job: Job) -> bool:
        """The job started on GPUs that were kept for another, and has not ended when it said that it would have."""
        return job.backfilled_until is not None and self.moment.has_come(job.backfilled_until)

    def with_allowed_priority(self, job: Job) -> Job:
        """The running job with the priority that counts: what its queue allows of what it asks."""
        allowed = self.tree.allowed_priority(job)
        return job if allowed == job.priority else replace(job, priority=allowed)

    def lost_work(self, job: Job, milli: int) -> int:
        """Milli-GPU-seconds: what `milli` of the job has not saved, and one restart.

        Example: 2 GPUs, checkpoint 300 s ago, restart 60 s → 720 GPU-seconds. Of a job that has overrun nothing counts,
        so that it leaves before all others. Of one that holds GPUs and computes nothing one second counts, so that
        it leaves before whoever computes. Moves with time: who decides by it pins the moment.
        """
        if self.has_overrun(job):
            return 0
        if job.idle:
            return milli
        since = max(job.admitted_at or job.submitted_at, job.last_checkpoint_at or 0.0)
        return milli * (max(0, int(self.moment.at - since)) + self.policy.restart_cost_s)
