"""The line of waiting jobs: which job is estimated to start before which, and by which rule.

The order is that of the estimated starts. Jobs without an estimate come after those with one, in the order of their
turns if each left things unchanged (`core.queueing.order`). The rule between two jobs is that of the turns: inside a
queue that of `core.queueing.service`; between queues the guarantee, then the dominant share, at the point where their
paths part. A job that comes first against the rule has a place that the other cannot use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Refusal
from cotenant.core.outlook.ahead import turns_of
from cotenant.core.queueing.fair_share import DominantShares, past_shares, within_guarantee
from cotenant.core.queueing.order import QueueOrder
from cotenant.core.queueing.service import GAP, ServiceOrder, why_before
from cotenant.query.situation import Situation


@dataclass(frozen=True)
class WaitingLine:
    situation: Situation

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """Jobs that wait and may start as they are, the next one first."""
        verdicts = self.situation.verdicts
        estimated, others = [], []
        for job in self.situation.snapshot.jobs:
            verdict = verdicts.get(job.key)
            if job.placement is not None or verdict is None or verdict.reason.needs_change:
                continue
            if verdict.position is None:
                others.append(job)
            else:
                estimated.append((verdict.position, job.key, job))
        return (*(job for _, _, job in sorted(estimated, key=lambda one: one[:2])), *self._in_turn(others))

    def _in_turn(self, jobs: Iterable[Job]) -> Iterator[Job]:
        accounting = self.situation.accounting
        known = [job for job in jobs if job.queue in accounting.tree.index]
        turn = self._service.turn
        return iter(QueueOrder(accounting.tree, accounting.usage, self._shares, self._is_within, known, turn=turn))

    def before(self, key: JobKey) -> Sequence[Job]:
        """Jobs ahead of this one; all jobs if it is not in the line."""
        jobs = self.jobs
        place = next((number for number, job in enumerate(jobs) if job.key == key), len(jobs))
        return jobs[:place]

    def why_before(self, other: Job, job: Job) -> str:
        """The rule by which the other comes first, as a clause about it."""
        own_rule = why_before(self._service.turn(other), self._service.turn(job))
        if other.queue == job.queue:
            return own_rule
        tree = self.situation.accounting.tree
        if other.queue not in tree.index or job.queue not in tree.index:
            return "its queue comes first"
        fork = tree.below_common_ancestor(tree.index[job.queue], tree.index[other.queue])
        if fork is None:
            return own_rule
        ours, theirs = fork
        guaranteed = self._is_within(theirs, other), self._is_within(ours, job)
        if guaranteed[0] != guaranteed[1]:
            return "it is inside the guarantee of its queue" if guaranteed[0] else GAP
        usage = self.situation.accounting.usage
        shares = self._shares.share(usage, theirs), self._shares.share(usage, ours)
        if shares[0] != shares[1]:
            return "its queue borrows less" if shares[0] < shares[1] else GAP
        return own_rule

    def _is_within(self, queue: int, job: Job) -> bool:
        request = self._requests.resolve(job)
        return not isinstance(request, Refusal) and within_guarantee(self.situation.accounting.usage, request, queue)

    @cached_property
    def _requests(self) -> RequestResolver:
        return RequestResolver(self.situation.accounting.inventory, self.situation.accounting.tree)

    @cached_property
    def _service(self) -> ServiceOrder:
        return turns_of(replace(self.situation.snapshot, accounting=self.situation.accounting), self.situation.policy)

    @cached_property
    def _shares(self) -> DominantShares:
        past = past_shares(self.situation.snapshot, self.situation.policy)
        return DominantShares(self.situation.accounting.tree, past)
