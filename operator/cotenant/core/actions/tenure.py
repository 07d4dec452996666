"""Evictions for a job that has waited too long, and how long other jobs hold the GPUs reserved for it.

A waiting job is overdue after the patience p = `Policy.collect_after_s`. For it leave, least lost work first:
- A job that borrows, if the guarantee of the overdue job covers what that asks for. It leaves at once if it has no
  `maxRuntime`, else when that is over, at the latest after `LONGEST` × p. A job of the same queue leaves only if the
  guarantee covers the overdue job beside older ones: otherwise one borrower would leave for another.
- A job inside a guarantee, or with as good a claim as the overdue job, only if an administrator set a tenure limit
  (`Policy.tenure_s`) and the job has held its GPUs that long. Across queues the overdue job has to be covered by its
  guarantee, or take nothing that is guaranteed to others.
Protected minutes hold here too, and a job that is not preemptible never leaves. Priority does not count: a stream of
jobs of higher priority would starve all others.

A running job is assumed to hold its GPUs until its `maxRuntime` or the tenure limit, whichever comes first. Without
either its end is unknown. A job that borrows is assumed to leave if its queue is guaranteed nothing; elsewhere it may
come to lie inside a guarantee when others leave.
"""

from __future__ import annotations

from math import inf
from typing import Final

import numpy as np

from cotenant.core.actions.victims import JobParts
from cotenant.core.allocation.eviction_candidate import CandidateList, EvictionCandidate
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.eviction_rules import EvictionRules
from cotenant.core.cycle.holders import HolderTable
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.gpus.inventory import BoolArray, FloatArray
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import EvictionKind
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage

LONGEST: Final = 4
"""Times the patience: a job that borrows leaves for an overdue job after this time at the latest."""


class Tenures:
    """Tenures of one cycle."""

    __slots__ = ("_entitled", "_nothing_held", "_rules", "_tree", "longest_s", "moment", "patience_s", "protected_s")

    def __init__(self, rules: EvictionRules) -> None:
        self._tree, self._rules, self.moment = rules.tree, rules, rules.moment
        policy, tenure_s = rules.policy, rules.policy.tenure_s
        self.patience_s = policy.collect_after_s
        self.protected_s = max([policy.protected_runtime_s, *(one.protected_runtime_s for one in rules.tree.queues)])
        """Longest time from its start for which any job that may be evicted is protected."""
        self.longest_s = float(max(tenure_s, self.protected_s)) if tenure_s else inf
        """Longest time for which such a job keeps GPUs from an overdue one; infinity: there is no tenure limit."""
        self._nothing_held = Usage(rules.tree)
        self._entitled: dict[Request, bool] = {}

    def is_overdue(self, job: Job) -> bool:
        """The job has waited so long that GPUs are reserved for it."""
        return self.moment.has_come(self.overdue_since(job))

    def overdue_since(self, job: Job) -> float:
        """Time at which it will have waited so long; infinity: never. While nobody is evicted for it, nothing is
        reserved for it either: GPUs would stand idle for a job that is unlikely to run.
        """
        if self.patience_s <= 0:
            return inf
        return max(waits_since(job) + self.patience_s, job.evicts_from or -inf)

    def is_guaranteed(self, request: Request) -> bool:
        """True if the guarantee of its queue would cover the request if the queue held nothing else."""
        return within_guarantee(self._nothing_held, request, request.queue)

    def is_entitled(self, request: Request) -> bool:
        """True if no job has a better claim: the request is guaranteed, or no other queue has a guarantee."""
        known = self._entitled.get(request)
        if known is None:
            known = self.is_guaranteed(request) or not guarantees_beside(self._tree, request.queue)
            self._entitled[request] = known
        return known

    def has_room(self, request: Request, usage: Usage) -> bool:
        """True if the request fits beside what other queues hold inside their guarantees.

        If it does not, reserved GPUs would stand idle until other queues hold less.
        """
        tree, path, classes = self._tree, self._tree.paths[request.queue], request.classes

        def held(queue: int) -> int:
            """Milli-GPU of these classes inside the guarantees of the queue, or of those below it."""
            used = sum(usage.class_milli[queue].get(name, 0) for name in classes)
            lines = [one for one in tree.quotas_of[queue] if one.quota.gpu_class in (None, *classes)]
            own = min(used, sum(min(one.guaranteed, usage.quota_milli[one.index]) for one in lines))
            return max(own, sum(map(held, tree.children[queue])))

        beside = [*tree.roots, *(child for above in path[1:] for child in tree.children[above])]
        taken = sum(held(queue) for queue in beside if queue not in path)
        capacity = sum(milli for (name, _), milli in tree.capacity.items() if name in classes)
        return request.least_milli <= capacity - taken

    def holds_s(self, request: Request, table: HolderTable) -> FloatArray:
        """[J] how long each job is assumed to hold its GPUs, in seconds from its start; infinity if unknown."""
        asked, protected_s = self._asked(table)
        index = self._tree.index
        lent = [name in index and self._always_borrows(request, index[name]) for name, _ in table.kinds]
        keeps_s = self._keeps_s(request, table, lent=np.array(lent, dtype=np.bool_)[table.kind])
        seconds = np.minimum(table.longest_s, keeps_s)
        return np.where(asked, np.maximum(seconds, protected_s), table.longest_s)

    def longest_hold_s(self, job: Job) -> float:
        """How long the job, running or waiting, may hold its GPUs from an entitled one; infinity if nothing ends it."""
        most = inf if job.max_runtime_s is None else float(job.max_runtime_s)
        if not job.preemptible or job.queue not in self._tree.index:
            return most
        return max(min(most, self.longest_s), self.protected_s)

    def candidates(self, job: Job, request: Request, running: RunningJobs, parts: JobParts) -> CandidateList:
        """Jobs whose tenure is over for the job that makes the request, with their surplus workers, least lost work
        first.
        """
        if not self.is_guaranteed(request) and not (self._rules.policy.tenure_s and self.is_entitled(request)):
            return CandidateList((), ())
        table = running.holders
        asked, protected_s = self._asked(table)
        lent = self._lent(job, request, running, parts)
        seconds = np.maximum(self._keeps_s(request, table, lent=lent), protected_s)
        begun = np.where(np.isnan(table.begun), self.moment.at, table.begun)
        may_leave = self.moment.have_come(np.where(asked & table.stays, begun + seconds, inf))
        surplus: list[EvictionCandidate] = []
        whole: list[EvictionCandidate] = []
        for row in np.flatnonzero(may_leave).tolist():
            holder = table.jobs[row]
            if self._rules.may_be_evicted(holder):
                surplus += parts.surplus(holder, EvictionKind.COLLECTED)
                whole.append(parts.minimum(holder, EvictionKind.COLLECTED))
        surplus.sort(key=lambda candidate: candidate.order)
        whole.sort(key=lambda candidate: candidate.order)
        return CandidateList(surplus, whole)

    def _lent(self, job: Job, request: Request, running: RunningJobs, parts: JobParts) -> BoolArray:
        """[J] True if the holder borrows, seen from the request: it lies outside the guarantee that counts against it.

        In the job's own queue only if the job would not borrow in its place.
        """
        table = running.holders
        lent = np.zeros(len(table.keys), dtype=np.bool_)
        for number, (name, _) in enumerate(table.kinds if self.is_guaranteed(request) else ()):
            if (queue := self._tree.index.get(name)) is not None:
                rows = running.uncovered(number, self._fork(request, queue))
                if len(rows) and (queue != request.queue or self._is_covered(job, request, running, parts)):
                    lent[rows] = True
        return lent

    def _is_covered(self, job: Job, request: Request, running: RunningJobs, parts: JobParts) -> bool:
        """True if the guarantee of its queue has room for the request beside the covered jobs that came before it."""
        older = Usage(self._tree)
        for key, is_surplus in running.covered.of(request.queue):
            if not is_surplus and (other := running.by_key[key]).submitted_at < job.submitted_at:
                older.add(parts.minimum(other, EvictionKind.COLLECTED).allocation.charge)
        return within_guarantee(older, request, request.queue)

    def _asked(self, table: HolderTable) -> tuple[BoolArray, FloatArray]:
        """[J] (whether the job may be asked to leave at all, seconds from its start for which it is protected)."""
        queues = [self._tree.index.get(name) for name, _ in table.kinds]
        by_kind = [
            is_preemptible and queue is not None for queue, (_, is_preemptible) in zip(queues, table.kinds, strict=True)
        ]
        asked = np.array(by_kind, dtype=np.bool_)[table.kind]
        protected = np.array([self._rules.protected_in(queue) for queue in queues], dtype=np.float64)[table.kind]
        overrun = self.moment.have_come(np.where(asked, table.backfilled_until, inf))
        protected[overrun] = self._rules.policy.protected_runtime_s
        return asked, protected

    def _keeps_s(self, request: Request, table: HolderTable, *, lent: BoolArray) -> FloatArray:
        """[J] seconds from its start for which each keeps its GPUs if it is not protected. `lent`: it borrows."""
        longest_s = self.longest_s if self.is_entitled(request) else inf
        lent_s = np.where(np.isinf(table.longest_s), 0.0, np.minimum(table.longest_s, LONGEST * self.patience_s))
        return np.where(lent, np.minimum(longest_s, lent_s), longest_s)

    def _always_borrows(self, request: Request, queue: int) -> bool:
        """True if jobs of the queue always borrow from the request's guarantee, whatever other jobs leave."""
        lines = self._tree.quotas_of[self._fork(request, queue)]
        return self.is_guaranteed(request) and not any(line.guaranteed for line in lines)

    def _fork(self, request: Request, queue: int) -> int:
        """The queue, or its ancestor below the common one, whose guarantee counts against the request."""
        fork = self._tree.below_common_ancestor(request.queue, queue)
        return queue if fork is None else fork[1]


def waits_since(job: Job) -> float:
    return job.submitted_at if job.requeued_at is None else job.requeued_at


def waiting_order(job: Job) -> tuple[float, JobKey]:
    """Order by wait, the longest first."""
    return waits_since(job), job.key


def guarantees_beside(tree: QueueTree, queue: int) -> bool:
    """Something is guaranteed to a queue that is neither above nor below this one."""
    return any(
        line.guaranteed and queue not in tree.paths[line.queue] and line.queue not in tree.paths[queue]
        for line in tree.quotas
    )
