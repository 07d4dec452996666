"""The cluster as the last plan left it: what every question is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Action, Admit, Evict, Plan, Verdict
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Situation:
    """A snapshot, the plan that was made of it, and by which policy. What follows is worked out once, when first asked
    for: nothing of it is ever written."""

    planned: Snapshot
    plan: Plan
    policy: Policy = field(default=DEFAULT)

    @property
    def verdicts(self) -> Mapping[JobKey, Verdict]:
        return self.plan.verdicts

    @cached_property
    def snapshot(self) -> Snapshot:
        """Every action of the plan laid over the jobs, as `ClusterState.assume` does: the next cycle's input, where
        nothing else happens."""
        actions = {action.job: action for action in self.plan.actions}
        jobs = tuple(_overlaid(job, actions.get(job.key), self.planned.now) for job in self.planned.jobs)
        evicted = {one.job for one in self.plan.actions if isinstance(one, Evict) and one.in_favour_of is not None}
        return replace(
            self.planned,
            jobs=jobs,
            nominations=tuple(sorted(item for item in self.plan.nominations.items())),
            nominated_earlier=(),
            evicted=tuple(sorted({*self.planned.evicted, *evicted})),
            accounting=None,
        )

    @cached_property
    def jobs(self) -> Mapping[JobKey, Job]:
        return {job.key: job for job in self.snapshot.jobs}

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Namespaces in which there are jobs."""
        return frozenset(job.namespace for job in self.snapshot.jobs)

    @cached_property
    def accounting(self) -> Accounting:
        """Accounting of `snapshot`."""
        return Accounting.of(self.snapshot.nodes, self.snapshot.queues, self.snapshot.jobs)


def _overlaid(job: Job, action: Action | None, now: float) -> Job:
    if action is None:
        return job
    if isinstance(action, Evict):
        return replace(job, evicting=job.placement is not None)
    if isinstance(action, Admit):
        until = action.backfilled_until
        return replace(job, placement=action.placement, admitted_at=now, backfilled_until=until, evicting=False)
    return replace(job, placement=action.placement, resizing_from=job.resizing_from or job.placement)
