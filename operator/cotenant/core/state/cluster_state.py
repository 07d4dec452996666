"""The observed cluster, and over it what was decided and is not observed yet. The only mutable object of the core.

One writer: the scheduling loop. `observe` takes facts, `assume` lays a plan over them before it is carried out,
`confirm` notes at which version a write landed, `forget` takes one action back when its write failed, `advance` moves
the clock of the usage history. `snapshot` gives the whole as a value and changes nothing.

An assumption covers the observed job until the observation has caught up. So a fact that is older than our write (its
version is lower than the confirmed one, or it does not show the decision yet) never frees GPUs that were just handed
out. Kueue's cache assumes workloads in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from cotenant.core.allocation.request import request_key
from cotenant.core.model.failover import FailoverState
from cotenant.core.model.objects import Job, JobKey, Node, Placement, TenantQueue
from cotenant.core.model.plan import Action, Admit, Evict, Plan, overlay
from cotenant.core.queueing.usage_history import HALF_LIFE_S, UsageHistory
from cotenant.core.runtimes.runtime_history import RuntimeHistory
from cotenant.core.snapshot.accounting import AccountingCache
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.booked_queues import BookedQueues
from cotenant.core.state.changes import is_change_of_job, is_change_of_queue
from cotenant.core.state.demand_history import DemandHistory
from cotenant.core.state.facts import (
    BookingGone,
    BookingObserved,
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
        self._evicted: set[JobKey] = set()
        """Evicted for another since the last change."""
        self._is_listing = False
        """Between `restore` and the next snapshot: what is observed was there before."""
        self._accounting = AccountingCache()
        self._booked = BookedQueues()
        self._booked_gpus: dict[str, tuple[tuple[str, str], ...]] = {}
        self._history = UsageHistory(history_half_life_s)
        self._demand = DemandHistory(history_half_life_s)
        self._runtimes = RuntimeHistory()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Name → node, as last observed."""
        return MappingProxyType(self._nodes)

    @property
    def queues(self) -> Mapping[str, TenantQueue]:
        """Name → queue, as last observed."""
        return MappingProxyType(self._queues)

    @property
    def jobs(self) -> Mapping[JobKey, Job]:
        """Key → job, as last observed, without what is assumed of it."""
        return MappingProxyType(self._observed)

    def observe(self, fact: ClusterFact) -> bool:
        """Take a fact in; true when it differs from what was observed before, so that a new decision may differ too.

        A repeated `JobObserved` changes nothing, but its version may confirm an assumption.
        """
        match fact:
            case NodeObserved(node):
                return self._observe_node(node.name, node)
            case NodeGone(name):
                return self._observe_node(name, None)
            case QueueObserved(queue):
                return self._observe_queue(queue.name, queue)
            case QueueGone(name):
                return self._observe_queue(name, None)
            case BookingObserved(booking):
                return self._note_change(self._booked.put(booking))
            case BookingGone(name):
                return self._note_change(self._booked.drop(name))
            case JobObserved(job, version):
                return self._observe_job(job, version)
            case JobGone(key, ran_s):
                return self._drop_job(key, ran_s)

    def restore(self, failover: FailoverState, now: float) -> None:
        """Continue from another leader: what it wrote into statuses replaces what was remembered here."""
        self._history.restore(failover.borrowing, now)
        self._demand.restore(failover.ended, now)
        self._runtimes = RuntimeHistory()
        for job, _ in sorted(failover.ended, key=lambda one: (one[1], one[0].key)):
            self._runtimes.record(job, job.ran_s)
        self._nominations, self._nominated_earlier = {}, failover.nominated
        self._evicted, self._is_listing = set(failover.evicted), True

    def assume(self, plan: Plan, now: float) -> None:
        """Lay every action of a plan over the observed jobs, as if it were done at `now`."""
        self._nominations, self._nominated_earlier = dict(plan.nominations), ()
        self._booked_gpus = {name: found.kept for name, found in plan.booked.items()}
        for action in plan.actions:
            if action.job in self._observed:
                self._assumed[action.job] = _Assumption(action, since=now)
                self._refresh(action.job)
                if isinstance(action, Admit) and (held := self._accounting.allocation(action.job)) is not None:
                    self._history.charge_penalty(self._effective[action.job], held.charge.milli, self._accounting.usage)
                elif isinstance(action, Evict) and action.in_favour_of is not None:
                    self._evicted.add(action.job)

    def confirm(self, action: Action, version: int) -> None:
        """Note the version at which an action was written; facts from this version on are newer than it."""
        assumed = self._assumed.get(action.job)
        if assumed is not None and assumed.action == action:
            assumed.version = version

    def forget(self, action: Action) -> None:
        """Take back an action that was not carried out: the job is again what was observed."""
        assumed = self._assumed.get(action.job)
        if assumed is not None and assumed.action == action:
            del self._assumed[action.job]
            self._history.refund_penalty(action.job)
            if isinstance(action, Evict):
                self._evicted.discard(action.job)
            self._refresh(action.job)

    def job(self, key: JobKey) -> Job | None:
        """The job as the next snapshot will show it."""
        return self._effective.get(key)

    def assumed(self) -> tuple[Job, ...]:
        """Jobs over which an action lies that is not observed yet, as the next snapshot will show them."""
        return tuple(self._effective[key] for key in self._assumed)

    def advance(self, now: float) -> None:
        """Decay and accumulate the usage history up to `now`, with what is held at this moment."""
        self._accounting.refresh(self._nodes.values(), self._queues_at(now), self._effective.values())
        self._history.advance(now, self._accounting.usage)
        self._demand.advance(now)

    def snapshot(self, now: float) -> Snapshot:
        """The cluster as a value; the usage history as of the last `advance`."""
        bare = self.bare_snapshot(now)
        return replace(bare, accounting=self._accounting.accounting(bare.nodes, bare.queues, bare.jobs))

    def bare_snapshot(self, now: float) -> Snapshot:
        """The same without its accounting."""
        self._is_listing = False
        queues = tuple(self._queues_at(now))
        return Snapshot(
            now=now,
            nodes=tuple(self._nodes.values()),
            queues=queues,
            bookings=self._booked.standings,
            booked=tuple(sorted(self._booked_gpus.items())),
            unbooked=tuple(self._queues.values()) if self._booked.standings else (),
            jobs=tuple(self._effective.values()),
            usage_history=self._history.borrowing(),
            demand_history=self._demand.demands(),
            runtimes=self._runtimes.learned(),
            evicted=tuple(sorted(self._evicted)),
            nominations=tuple(sorted(item for item in self._nominations.items() if item[0] in self._effective)),
            nominated_earlier=tuple(sorted(key for key in self._nominated_earlier if key in self._effective)),
        )

    def _queues_at(self, now: float) -> Iterable[TenantQueue]:
        """Queues with what is booked for them; counted afresh where that has changed."""
        if self._booked.update(self._queues, self._nodes, now):
            self._accounting.invalidate()
        return self._booked.queues.values()

    def _observe_node(self, name: str, node: Node | None) -> bool:
        before = self._nodes.pop(name, None) if node is None else self._nodes.get(name)
        self._accounting.update_node(node, before)
        if node is not None:
            self._nodes[name] = node
        return self._note_change(node != before)

    def _observe_queue(self, name: str, queue: TenantQueue | None) -> bool:
        before = self._queues.get(name)
        if before == queue:
            return False
        if queue is not None and not is_change_of_queue(queue, before):
            self._queues[name] = queue  # what is left of a budget that is not spent decides nothing
            return False
        if queue is None:
            del self._queues[name]
        else:
            self._queues[name] = queue
        self._accounting.invalidate()
        return self._note_change(True)

    def _observe_job(self, job: Job, version: int) -> bool:
        before = self._observed.get(job.key)
        self._note_change(job != before and is_change_of_job(job, self._effective.get(job.key)))
        if before is not None and (job.uid != before.uid or request_key(job) != request_key(before)):
            self._nominations.pop(job.key, None)  # that place was for another request
        if before is None or job.uid != before.uid:
            self._demand.job_arrived(job)
        self._observed[job.key] = job
        assumed = self._assumed.get(job.key)
        if assumed is not None and (job.uid != self._effective[job.key].uid or _caught_up(assumed, job, version)):
            del self._assumed[job.key]
        self._refresh(job.key)
        return job != before

    def _drop_job(self, key: JobKey, ran_s: int | None) -> bool:
        """A job that ended gives back everything at once, what was assumed of it included."""
        known = self._observed.pop(key, None) is not None
        if known:
            self._demand.job_left(key)
        self._assumed.pop(key, None)
        job = self._effective.pop(key, None)
        if job is not None:
            self._accounting.update_job(None, job)
            self._history.job_left(key)
            if ran_s is not None:
                self._runtimes.record(job, ran_s)
            self._note_change(True)
        return known

    def _note_change(self, changed: bool) -> bool:
        if changed and not self._is_listing:
            self._evicted.clear()
        return changed

    def _refresh(self, key: JobKey) -> None:
        job = self._observed[key]
        assumed = self._assumed.get(key)
        effective = job if assumed is None else overlay(job, assumed.action, assumed.since)
        try:
            self._accounting.update_job(effective, self._effective.get(key))
        except Exception:
            self._accounting.invalidate()  # it may be counted in part
            raise
        self._effective[key] = effective


def _caught_up(assumed: _Assumption, job: Job, version: int) -> bool:
    if assumed.version is not None and version >= assumed.version:
        return True
    action = assumed.action
    if isinstance(action, Evict):
        return job.evicting or job.placement is None
    return job.placement == action.placement
