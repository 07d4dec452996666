"""How long a running job may keep its GPUs from one that has waited too long, and how long it is counted to.

Who may be asked to leave, least lost work first, with the patience p = `Policy.collect_after_s`, after which a waiting
job is overdue:
- who *borrows*, for a job that its own guarantee covers: at once where it has set no end to its run (`maxRuntime`),
  else when that is over or after `LONGEST` × p;
- who holds GPUs inside a guarantee, or as rightfully as the job that waits: nobody, unless an administrator has set a
  tenure (`Policy.tenure_s`); then after that time. Across queues it is kept to for a job that its own guarantee covers,
  or that takes nothing which is guaranteed to anybody: who leaves has its claim still and starts elsewhere, and so GPUs
  are freed that lie in the wrong places.
Protected minutes are kept in any case, and who cannot be evicted at all (`preemptible`) never is. Priority does not
matter here: a stream of jobs of higher priority would starve everybody below.

How long a job is *counted* to hold its GPUs, where no tenure ends it sooner: for its `maxRuntime`, which is enforced;
without one for as long as nine out of ten earlier jobs of its queue ran (`LEARNED_PERCENT`), which is not, or once it
has outlived that, nine out of ten of those that ran for longer; where too few have, without end. What is borrowed
counts as evicted where its queue is guaranteed nothing; elsewhere it may come to lie inside a guarantee when others
leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from cotenant.core.actions.covered import CoveredJobs
from cotenant.core.actions.eviction_rules import EvictionRules
from cotenant.core.actions.holders import HolderTable
from cotenant.core.actions.victims import JobParts
from cotenant.core.allocation.eviction_candidate import CandidateList, EvictionCandidate
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.gpus.inventory import BoolArray, FloatArray
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import EvictionKind
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage
from cotenant.core.runtimes.learned import LearnedRuntimes, quantile

LONGEST: Final = 4
"""Times the patience: who borrows keeps nothing for longer."""
LEARNED_PERCENT: Final = 90


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """Part of `Tenures` that is the same for one request and all jobs of a table."""

    asked: BoolArray
    """[J] the job may be asked to leave at all."""
    longest_s: float
    protected_s: FloatArray
    """[J]."""
    lent_most_s: float

    def lent_s(self, table: HolderTable) -> FloatArray:
        """[J] for how long each keeps what it borrows."""
        return np.where(np.isinf(table.longest_s), 0.0, np.minimum(table.longest_s, self.lent_most_s))

    def may_leave_after(self, table: HolderTable, *, lent: BoolArray) -> FloatArray:
        """[J] seconds from its start after which each may be asked to leave."""
        seconds = np.where(lent, np.minimum(self.longest_s, self.lent_s(table)), self.longest_s)
        return np.where(self.asked, np.maximum(seconds, self.protected_s), inf)


class Tenures:
    """Tenures of one cycle."""

    __slots__ = ("_covers", "_entitled", "_guaranteed", "_learned", "_nothing_held", "_rules", "_tree", "runtimes")

    def __init__(self, rules: EvictionRules, runtimes: LearnedRuntimes) -> None:
        self._tree, self._rules, self.runtimes = rules.tree, rules, runtimes
        self._nothing_held = Usage(rules.tree)
        self._guaranteed: dict[Request, bool] = {}
        self._entitled: dict[Request, bool] = {}
        self._learned: dict[str, float] = {}
        self._covers: dict[tuple[int, int], bool] = {}
        """(queue of a request, queue of a job) → something is guaranteed where the two compete."""

    @property
    def tree(self) -> QueueTree:
        return self._tree

    @property
    def moment(self) -> Moment:
        return self._rules.moment

    @property
    def patience_s(self) -> int:
        return self._rules.policy.collect_after_s

    def is_overdue(self, job: Job) -> bool:
        """The job has waited so long that GPUs are collected for it."""
        return self.moment.has_come(self.overdue_since(job))

    def overdue_since(self, job: Job) -> float:
        """Time at which it will have waited so long; infinity: never."""
        return waits_since(job) + self.patience_s if self.patience_s > 0 else inf

    @property
    def longest_s(self) -> float:
        """Longest time that a job which may be evicted keeps GPUs from an overdue one; infinity: no tenure."""
        tenure_s = self._rules.policy.tenure_s
        return max(tenure_s, self.protected_s) if tenure_s else inf

    @property
    def protected_s(self) -> int:
        """Longest time from its start for which a job is not evicted."""
        return max([self._rules.policy.protected_runtime_s, *(one.protected_runtime_s for one in self._tree.queues)])

    def is_guaranteed(self, request: Request) -> bool:
        """The guarantee of its queue covers the request when the queue holds nothing else."""
        known = self._guaranteed.get(request)
        if known is None:
            known = self._guaranteed[request] = within_guarantee(self._nothing_held, request, request.queue)
        return known

    def is_entitled(self, request: Request) -> bool:
        """It is guaranteed, or nothing is guaranteed to any other queue: nobody has a better claim."""
        known = self._entitled.get(request)
        if known is None:
            known = self.is_guaranteed(request) or not guarantees_beside(self._tree, request.queue)
            self._entitled[request] = known
        return known

    def learned_s(self, queue: str) -> float:
        """Time within which nine out of ten earlier jobs of the queue ran; infinity: too few have."""
        known = self._learned.get(queue)
        if known is None:
            runs_s = self.runtimes.runs_of_queue(queue)
            known = self._learned[queue] = quantile(runs_s, LEARNED_PERCENT) if runs_s else inf
        return known

    def counted_s(self, request: Request, job: Job) -> float:
        """Seconds from its start for which a job is counted to keep its GPUs from the request, or infinity."""
        seconds = self.learned_s(job.queue) if job.max_runtime_s is None else job.max_runtime_s
        if not job.preemptible or job.queue not in self._tree.index:  # nobody asks who is in no queue to leave
            return seconds
        if self.is_entitled(request):
            seconds = min(seconds, self.longest_s)
        if self._never_covered(request, job):
            seconds = min(seconds, self._lent_s(job))
        return max(seconds, self._rules.protected_s(job)) if seconds < inf else inf

    def counted_until(self, request: Request, job: Job) -> float:
        """The end of a running job as it is counted."""
        begun = self._begun(job)
        ends = begun + self.counted_s(request, job)
        if job.max_runtime_s is not None or ends == inf or not self._rules.moment.has_come(ends):
            return ends
        may_leave = begun + self._may_leave_after(request, job, lent=self._never_covered(request, job))
        return min(may_leave, self._outlived_until(job, begun))

    def _outlived_until(self, job: Job, begun: float) -> float:
        moment = self._rules.moment
        runs_s = self.runtimes.runs_of_queue(job.queue, longer_than_s=int(moment.unnoted - begun))
        if not runs_s:
            return inf
        moment.has_come(begun + runs_s[0])  # then fewer are longer
        return begun + quantile(runs_s, LEARNED_PERCENT)

    def is_certain(self, request: Request, job: Job) -> bool:
        """Its end as counted is enforced, and not only learned."""
        return job.max_runtime_s is not None or self.counted_s(request, job) != self.learned_s(job.queue)

    def candidates(self, request: Request, running: RunningJobs, parts: JobParts) -> CandidateList:
        """Jobs whose tenure is over, with their surplus workers, least lost work first."""
        if not self.is_guaranteed(request) and not (self._rules.policy.tenure_s and self.is_entitled(request)):
            return CandidateList((), (), 0)
        table = HolderTable.among(running)
        terms, lent = self.terms(request, table), self._lent(request, running, table)
        begun = np.where(np.isnan(table.begun), self.moment.unnoted, table.begun)
        may_leave = self.moment.have_come(np.where(table.leaves, inf, begun + terms.may_leave_after(table, lent=lent)))
        surplus: list[EvictionCandidate] = []
        whole: list[EvictionCandidate] = []
        for row in np.flatnonzero(may_leave & ~table.resized).tolist():
            job = table.jobs[row]
            if self._rules.may_be_evicted(job):
                surplus += parts.surplus(job, EvictionKind.COLLECTED)
                whole.append(parts.minimum(job, EvictionKind.COLLECTED))
        surplus.sort(key=lambda candidate: candidate.order)
        whole.sort(key=lambda candidate: candidate.order)
        return CandidateList(surplus, whole, 0)

    def _lent(self, request: Request, running: RunningJobs, table: HolderTable) -> BoolArray:
        """[J] the job lies outside the guarantee that counts against the request."""
        lent = np.zeros(len(table.keys), dtype=np.bool_)
        if self.is_guaranteed(request):
            covered, known = CoveredJobs.among(running), running.kept.setdefault(Tenures, {})
            for number, (name, _) in enumerate(table.kinds):
                if (queue := self._tree.index.get(name)) is None:
                    continue
                at = number, self._fork(request, queue)
                if at not in known:
                    rows = np.flatnonzero(table.kind == number)
                    inside = covered.of(at[1])
                    known[at] = rows[[(table.keys[row], False) not in inside for row in rows.tolist()]]
                lent[known[at]] = True
        return lent

    def terms(self, request: Request, table: HolderTable) -> Terms:
        """Terms of each kind of jobs in the table."""
        is_entitled = self.is_entitled(request)
        by_kind = [is_preemptible and name in self._tree.index for name, is_preemptible in table.kinds]
        asked = np.array(by_kind, dtype=np.bool_)[table.kind]
        overrun = self.moment.have_come(np.where(asked, table.backfilled_until, inf))
        queues = [self._tree.index.get(name) for name, _ in table.kinds]
        protected = np.array([self._rules.protected_in(queue) for queue in queues], dtype=np.float64)[table.kind]
        protected[overrun] = self._rules.policy.protected_runtime_s
        return Terms(
            asked,
            self.longest_s if is_entitled else inf,
            protected,
            LONGEST * self.patience_s,
        )

    def _may_leave_after(self, request: Request, job: Job, *, lent: bool) -> float:
        if not job.preemptible or job.queue not in self._tree.index:
            return inf
        seconds = self.longest_s if self.is_entitled(request) else inf
        if lent and self.is_guaranteed(request):
            seconds = min(seconds, self._lent_s(job))
        return max(seconds, self._rules.protected_s(job))

    def _lent_s(self, job: Job) -> int:
        return 0 if job.max_runtime_s is None else min(job.max_runtime_s, LONGEST * self.patience_s)

    def never_covers(self, request: Request, queue: int) -> bool:
        """Whatever else leaves, jobs of the queue borrow from the guarantee of the request."""
        if not self.is_guaranteed(request):
            return False
        covers = self._covers.get((request.queue, queue))
        if covers is None:
            lines = self._tree.quotas_of[self._fork(request, queue)]
            covers = self._covers[request.queue, queue] = any(line.guaranteed for line in lines)
        return not covers

    def _never_covered(self, request: Request, job: Job) -> bool:
        queue = self._tree.index.get(job.queue)  # none: a claim of somebody else's, or a queue that is gone
        return queue is not None and self.never_covers(request, queue)

    def _fork(self, request: Request, queue: int) -> int:
        """The queue, or its ancestor below the common one, whose guarantee counts against the request."""
        fork = self._tree.below_common_ancestor(request.queue, queue) if queue != request.queue else None
        return queue if fork is None else fork[1]

    def _begun(self, job: Job) -> float:
        return job.admitted_at if job.admitted_at is not None else self._rules.moment.unnoted


def waits_since(job: Job) -> float:
    return job.submitted_at if job.requeued_at is None else job.requeued_at


def guarantees_beside(tree: QueueTree, queue: int) -> bool:
    """Something is guaranteed to a queue that is neither above nor below this one."""
    return any(
        line.guaranteed and queue not in tree.paths[line.queue] and line.queue not in tree.paths[queue]
        for line in tree.quotas
    )
