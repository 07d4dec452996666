"""`ClusterState`: what is known of the cluster, plus what was decided and not yet seen. The only mutable object.

One writer (the scheduling loop). `observe` takes facts, `assume` notes a plan before it is carried out, `confirm` says
at which version the write landed, `forget` takes one action back when the write failed, `snapshot` gives the whole as a
value.

An assumption lies over the observed job until the observation has caught up: a fact older than our write (its version
is lower than the confirmed one, or it does not show the decision yet) never frees GPUs that were just handed out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.core.model.failover import FailoverState
from cotenant.core.model.objects import Job, JobKey, Node, Placement, TenantQueue
from cotenant.core.model.plan import Action, Admit, Evict, Plan
from cotenant.core.queueing.usage_history import HALF_LIFE_S, UsageHistory
from cotenant.core.snapshot.accounting import AccountingCache
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.facts import (
    ClusterFact,
    JobGone,
    JobObserved,
    NodeGone,
    NodeObserved,
    QueueGone,
    QueueObserved,
)


@dataclass(slots=True)
class _Assumption:
    action: Action
    since: float
    version: int | None = None
    """Version of our write, once it is known."""


class ClusterState:
    def __init__(self, *, history_half_life_s: int = HALF_LIFE_S) -> None:
        self._nodes: dict[str, Node] = {}
        self._queues: dict[str, TenantQueue] = {}
        self._observed: dict[JobKey, Job] = {}
        self._assumed: dict[JobKey, _Assumption] = {}
        self._effective: dict[JobKey, Job] = {}
        self._nominations: dict[JobKey, Placement] = {}
        self._nominated_earlier: tuple[JobKey, ...] = ()
        self._accounting = AccountingCache()
        self._history = UsageHistory(history_half_life_s)
        self._now = 0.0

    def observe(self, event: ClusterFact) -> None:
        match event:
            case NodeObserved(node):
                self._accounting.update_node(node, self._nodes.get(node.name))
                self._nodes[node.name] = node
            case NodeGone(name):
                self._accounting.update_node(None, self._nodes.pop(name, None))
            case QueueObserved(queue):
                self._update_queue(queue.name, queue)
            case QueueGone(name):
                self._update_queue(name, None)
            case JobObserved(job, version):
                self._observe_job(job, version)
            case JobGone(key):
                self._observed.pop(key, None)
                self._assumed.pop(key, None)
                self._drop(self._effective.pop(key, None))

    def restore(self, handover: FailoverState, now: float) -> None:
        """Go on where another leader stopped: instead of what was remembered here, what it left in writing."""
        self._history.restore(handover.borrowing, handover.ended, now)
        self._nominations, self._nominated_earlier = {}, handover.nominated

    def assume(self, plan: Plan) -> None:
        """Note every action as if it were done; facts that follow confirm it."""
        self._nominations, self._nominated_earlier = dict(plan.nominations), ()
        for action in plan.actions:
            if action.job in self._observed:
                self._assumed[action.job] = _Assumption(action, since=self._now)
                self._refresh(action.job)
                if isinstance(action, Admit):
                    self._charge_admission(action.job)

    def confirm(self, action: Action, version: int) -> None:
        """The action was written; facts from this version on are newer than it."""
        assumed = self._assumed.get(action.job)
        if assumed is not None and assumed.action == action:
            assumed.version = version

    def forget(self, action: Action) -> None:
        """The action was not carried out: back to what was observed."""
        assumed = self._assumed.get(action.job)
        if assumed is not None and assumed.action == action:
            del self._assumed[action.job]
            self._history.refund_penalty(action.job)
            self._refresh(action.job)

    def job(self, key: JobKey) -> Job | None:
        """The job as the next snapshot will show it."""
        return self._effective.get(key)

    def snapshot(self, now: float) -> Snapshot:
        self._now = now
        nodes, queues = tuple(self._nodes.values()), tuple(self._queues.values())
        jobs = tuple(self._effective.values())
        standing = self._accounting.accounting(nodes, queues, jobs)
        self._history.advance(now, standing.usage)
        return Snapshot(
            now=now,
            nodes=nodes,
            queues=queues,
            jobs=jobs,
            usage_history=self._history.borrowing(),
            demand_history=self._history.demand(),
            accounting=standing,
            nominations=tuple(
                sorted((key, place) for key, place in self._nominations.items() if key in self._effective)
            ),
            nominated_earlier=tuple(sorted(key for key in self._nominated_earlier if key in self._effective)),
        )

    def _drop(self, job: Job | None) -> None:
        if job is not None:
            self._accounting.update_job(None, job)
            self._history.job_left(job)

    def _charge_admission(self, key: JobKey) -> None:
        holding = self._accounting.allocation(key)
        if holding is not None:
            self._history.charge_penalty(self._effective[key], holding.charge.milli, self._accounting.usage)

    def _update_queue(self, name: str, queue: TenantQueue | None) -> None:
        if self._queues.get(name) == queue:
            return
        if queue is None:
            del self._queues[name]
        else:
            self._queues[name] = queue
        self._accounting.invalidate()

    def _observe_job(self, job: Job, version: int) -> None:
        self._observed[job.key] = job
        assumed = self._assumed.get(job.key)
        if assumed is not None and (job.uid != self._effective[job.key].uid or _caught_up(assumed, job, version)):
            del self._assumed[job.key]
        self._refresh(job.key)

    def _refresh(self, key: JobKey) -> None:
        job = self._observed[key]
        assumed = self._assumed.get(key)
        effective = job if assumed is None else _overlay(job, assumed)
        self._accounting.update_job(effective, self._effective.get(key))
        self._effective[key] = effective


def _caught_up(assumed: _Assumption, job: Job, version: int) -> bool:
    if assumed.version is not None and version >= assumed.version:
        return True
    action = assumed.action
    if isinstance(action, Evict):
        return job.evicting or job.placement is None
    return job.placement == action.placement


def _overlay(job: Job, assumed: _Assumption) -> Job:
    action = assumed.action
    if isinstance(action, Evict):
        return replace(job, evicting=job.placement is not None)
    if isinstance(action, Admit):
        return replace(job, placement=action.placement, admitted_at=assumed.since, evicting=False)
    return replace(job, placement=action.placement, resizing_from=job.resizing_from or job.placement)
