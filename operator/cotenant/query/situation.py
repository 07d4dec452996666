"""The cluster as the last plan left it, which every question is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from cotenant.core.model.objects import Gpu, Job, JobKey
from cotenant.core.model.plan import Evict, Plan, Verdict, overlay
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.query.redaction import JobMention, size_of


@dataclass(frozen=True)
class Situation:
    """A snapshot, its plan, and the policy. Derived values are computed once, when they are first needed; nothing is
    ever written.
    """

    planned: Snapshot
    plan: Plan
    policy: Policy = field(default=DEFAULT)

    @property
    def verdicts(self) -> Mapping[JobKey, Verdict]:
        return self.plan.verdicts

    @cached_property
    def snapshot(self) -> Snapshot:
        """The jobs with every action of the plan applied, as `ClusterState.assume` does: the next cycle's input, if
        nothing else happens.
        """
        actions = {action.job: action for action in self.plan.actions}
        jobs = tuple(
            job if (action := actions.get(job.key)) is None else overlay(job, action, self.planned.now)
            for job in self.planned.jobs
        )
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
    def queues(self) -> frozenset[str]:
        """Queues that are there, without deleted ones whose jobs still hold GPUs."""
        return frozenset(queue.name for queue in self.snapshot.queues if not queue.deleted)

    @cached_property
    def gpus(self) -> Mapping[str, Gpu]:
        """Every GPU by its UUID."""
        return {gpu.uuid: gpu for node in self.snapshot.nodes for gpu in node.gpus}

    def mention(self, key: JobKey, why: str = "") -> JobMention:
        """The job as a part of an answer."""
        job = self.jobs[key]
        asks = size_of(job, self.gpus)
        return JobMention(job=key, namespace=job.namespace, queue=job.queue, asks=asks, why=why)

    @cached_property
    def accounting(self) -> Accounting:
        """Accounting of `snapshot`."""
        return Accounting.of(self.snapshot.nodes, self.snapshot.queues, self.snapshot.jobs)
