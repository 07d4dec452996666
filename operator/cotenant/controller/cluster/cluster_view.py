"""Keeps the core's `ClusterState` in step with the object cache: nodes, queues, and jobs that wait or hold GPUs.

A pod that may still run holds its GPUs, even if its job is gone. If no committed placement covers the pod, an orphaned
allocation stands in for it. So no GPU is handed out twice, not even after a crash or a deletion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cotenant.api.conversion.booking_terms import terms_of
from cotenant.api.conversion.quota_grants import effective_queues
from cotenant.api.conversion.to_core import served_namespaces, to_queue
from cotenant.controller.client.kube import QUEUES
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.controller.cluster.budgets.job_meters import JobMeters
from cotenant.controller.cluster.core_jobs import CoreJobs
from cotenant.controller.cluster.counted_pods import CountedPods
from cotenant.controller.cluster.failover import failover_state
from cotenant.controller.cluster.gpu_holders import GpuHolders
from cotenant.controller.cluster.held_by_others import HeldByOthers
from cotenant.controller.cluster.nodes.cluster_nodes import ClusterNodes
from cotenant.controller.cluster.orphaned_allocations import orphaned_allocations
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import CoreReading, JobMemories
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import TERMINAL
from cotenant.core.model.objects import Job, JobKey, TenantQueue
from cotenant.core.model.plan import Action, Plan
from cotenant.core.quota.deleted_queues import with_deleted
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import BookingGone, BookingObserved, JobGone, JobObserved, QueueGone, QueueObserved


@dataclass(frozen=True, slots=True)
class Synced:
    """Result of one sync."""

    jobs: frozenset[JobId]
    """Jobs that changed, or whose pods changed."""
    decisions_may_change: bool
    """True if anything changed that decisions depend on."""
    failures: Mapping[JobId, Exception]
    """Jobs that cannot be converted for the core, each with the error. Their GPUs are still counted as held."""


class ClusterView:
    """The cluster as the next decision sees it. Only the scheduling loop writes here, between two decisions."""

    def __init__(self, cache: ObjectCache, memories: JobMemories, settings: Settings, budgets: Budgets) -> None:
        self._cache, self._pods = cache, cache.pods
        self._memories = memories
        self._budgets = budgets
        self._budget_revision = -1
        self._budget_s = settings.queue_s
        self._charged_at: float | None = None
        self._grants_until: float | None = None
        """When the first active quota grant ends."""
        self._state = ClusterState(history_half_life_s=settings.history_half_life_s)
        self._watched_since: float | None = None
        self._labelled_only = settings.tenant_namespaces == "labelled"
        self._booked_names: set[str] = set()
        """Bookings that are counted."""
        self._with_exclusions: set[JobKey] = set()
        """Waiting jobs that avoid a node or pause for a time, and jobs that an administrator asked to move."""
        self._resolved: list[tuple[JobId, Action, int | None]] = []
        self._gpu_holders = GpuHolders()
        self.nodes = ClusterNodes(cache, self._state, settings)
        self.meters = JobMeters(cache, self.nodes, self._state)
        self.core_jobs = CoreJobs(cache, memories, settings, self.nodes, self._gpu_holders)
        self._others = HeldByOthers(cache.claims, self.nodes, self._gpu_holders, self._state)
        self._counted = CountedPods(cache, memories, self.core_jobs, self._state)

    def restore(self, now: float) -> None:
        """Start as a new leader: read everything anew, and continue from what the last leader wrote into statuses.

        What is missing gets some time to appear.
        """
        self._cache.mark_all_changed()
        self.nodes.restore()
        # What was known when this replica led before may have gone since.
        self._cache.mark_changed((memory.id for memory in self._memories), tuple(self.nodes.known()))
        records = self._cache.jobs
        failover = failover_state(self._cache.queues, records, lambda record: self._read_or_none(record, now))
        self._state.restore(failover, now)
        self._watched_since = now

    def sync(self, now: float) -> Synced:
        """Apply the changes of the cache, and the results of assumed actions."""
        # 1. Actions that were written, at their version, or not at all.
        resolved, self._resolved = self._resolved, []
        for job, action, version in resolved:
            observed = self._state.jobs.get(action.job)
            if observed is None or observed.uid != job.uid:
                continue  # the assumption went with the job; one of a namesake may look the same
            if version is None:
                self._state.forget(action)
            else:
                self._state.confirm(action, version)
        changed = any(version is None for _, _, version in resolved)
        # 2. Nodes, 3. queues, 4. jobs: those that wait or hold, and pods that no placement covers.
        changes = self._cache.pop_changes()
        for job in changes.jobs:
            if (record := self._cache.job(job)) is not None and record.status.excluded_nodes:
                self.nodes.runtime_failures.note(record, self._serving_queue(record))
        changed |= self.nodes.sync(changes.nodes, now)
        of_nodes = (self._cache.claims.on_node(name) for name in changes.nodes)
        changed |= self._others.sync_claims(changes.claims.union(*of_nodes))
        self._charge_budgets(now, bool(changes.queues))
        grants_end = self._grants_until is not None and now >= self._grants_until
        if changes.queues or grants_end or self._budget_revision != self._budgets.revision:
            self._budget_revision = self._budgets.revision
            changed |= self._sync_queues(now)
        failures: dict[JobId, Exception] = {}
        for key in {job.key for job in changes.jobs} | self._with_exclusions:  # the time may be over
            changed |= self._sync_job(key, now, failures)
        for job in changes.jobs:
            try:
                changed |= self._sync_orphaned(job)
            except Exception as error:  # what was counted of its pods stays
                failures[job] = error
        if self._deleted_queues_changed(job.key for job in changes.jobs):
            changed |= self._sync_queues(now)
        # 5. Whole devices that pods of others hold: of those that nothing of ours holds by now.
        changed |= self._others.sync_devices()
        return Synced(frozenset(changes.jobs), changed, failures)

    def jobs_alone(self, now: float) -> Snapshot:
        """The snapshot without derived sums, to search for the one job that breaks the sums or the decision."""
        return self._state.bare_snapshot(now)

    def snapshot(self, now: float) -> Snapshot:
        """Input of the next decision."""
        watched_since = now if self._watched_since is None else self._watched_since
        return replace(self._state.snapshot(now), watched_since=watched_since)

    def advance(self, now: float) -> None:
        self._state.advance(now)

    def assume(self, plan: Plan, now: float) -> None:
        """Assume that every action of a plan is done, before it is carried out."""
        self._state.assume(plan, now)

    def resolve_assumption(self, job: JobId, action: Action, version: int | None) -> None:
        """Note that an action on this job was written at this version, or was not written.

        The note takes effect with the next sync: the state must not change while a decision is made in its thread.
        """
        self._resolved.append((job, action, version))

    def read_job(self, record: JobRecord, now: float) -> CoreReading:
        return self.core_jobs.reading(record, now)

    def _read_or_none(self, record: JobRecord, now: float) -> Job | None:
        try:
            return self.read_job(record, now).job
        except Exception:  # it is quarantined by the sync that follows
            return None

    def _serving_queue(self, record: JobRecord) -> str:
        """The queue that a job names, if that serves the job's namespace; empty otherwise."""
        queue = self._cache.queues.get(record.queue_named)
        serves = queue is not None and record.namespace in served_namespaces(queue.spec, self._cache.namespaces)
        return record.queue_named if serves else ""

    def _sync_queues(self, now: float) -> bool:
        changed = False
        effective = effective_queues(self._read_queues(), self._cache.quota_grants.values(), now)
        self._grants_until = effective.until
        queues = with_deleted(effective.queues.values(), self._state.jobs.values(), self._state.queues)
        for name in set(self._state.queues) - {queue.name for queue in queues}:
            changed |= self._state.observe(QueueGone(name))
        for queue in queues:
            changed |= self._state.observe(QueueObserved(queue))
        for name in self._booked_names - self._cache.bookings.keys():
            changed |= self._state.observe(BookingGone(name))
        for booking in self._cache.bookings.values():
            changed |= self._state.observe(BookingObserved(terms_of(booking)))
        self._booked_names = set(self._cache.bookings)
        self._counted.serve({namespace for queue in self._state.queues.values() for namespace in queue.namespaces})
        return changed

    def _deleted_queues_changed(self, changed: Iterable[JobKey]) -> bool:
        """Update jobs that hold GPUs in the name of a deleted queue, and forget deleted queues that nothing holds GPUs
        of.
        """
        queues, jobs = self._state.queues, self._state.jobs
        if any(job.placement and job.queue and job.queue not in queues for key in changed if (job := jobs.get(key))):
            return True
        deleted = {queue.name for queue in queues.values() if queue.deleted}
        return bool(deleted) and not deleted <= {job.queue for job in jobs.values() if job.placement is not None}

    def _charge_budgets(self, now: float, queues_changed: bool) -> None:
        """Charge budgets before a decision: no account may be missing or older than `queue_s`."""
        due = self._charged_at is None or queues_changed or not 0 <= now - self._charged_at < self._budget_s
        if due and any(queue.spec.budget for queue in self._cache.queues.values()):
            self._charged_at = now
            there = self._cache.queues
            deleted = {name: queue.parent for name, queue in self._state.queues.items() if name not in there}
            self._budgets.charge(there, self.meters.read(now), now, deleted=deleted)

    def _read_queues(self) -> dict[str, TenantQueue]:
        """Queues from their documents. A Queue that cannot be read grants nothing."""
        found = {}
        for name, document in self._cache.queues.items():
            try:
                found[name] = to_queue(
                    document,
                    namespaces=self._cache.namespaces,
                    standing=self._budgets.standing(name, document),
                    labelled_only=self._labelled_only,
                )
            except Exception as error:
                self._cache.note_unreadable(QUEUES, name, error)
        return found

    def _sync_job(self, key: JobKey, now: float, failures: dict[JobId, Exception]) -> bool:
        record = self._cache.jobs.get(key)
        if record is None:
            return self._drop(key)
        try:
            return self._observe(record, self.core_jobs.job(record, now))
        except Exception as error:
            failures[record.id] = error
            return self._observe(record, self.core_jobs.as_it_holds(record))

    def _observe(self, record: JobRecord, job: Job | None) -> bool:
        if job is None:
            changed = self._drop(record.key, ran_s=_ran_s(record))
            if self.core_jobs.is_paused(record):
                self._with_exclusions.add(record.key)
            return changed
        if job.move_asked or (job.excluded_nodes and job.placement is None):
            self._with_exclusions.add(record.key)
        else:
            self._with_exclusions.discard(record.key)
        self._gpu_holders.replace(self._state.jobs.get(record.key), job)
        return self._state.observe(JobObserved(job, record.version))

    def granted_pods(self, job: JobId) -> tuple[PodRecord, ...]:
        """Pods of the job that a decision of this operator can have made."""
        return self._counted.granted(job)

    def _sync_orphaned(self, job: JobId) -> bool:
        """One allocation for each attempt that still has pods without a committed placement."""
        uncovered = [pod for pod in self._counted.uncovered(job) if self._counted.is_granted(pod)]
        memory, changed = self._memories[job], False
        self.nodes.note_ungranted(
            memory, [pod for pod in self._pods.of_job(job).values() if not self._counted.is_granted(pod)]
        )
        orphaned = orphaned_allocations(uncovered, job, self._counted.queue_of(job, uncovered)) if uncovered else {}
        for key in memory.orphaned - set(orphaned):
            changed |= self._drop(key, orphaned=True)
        for key, allocation in orphaned.items():
            self._gpu_holders.replace(self._state.jobs.get(key), allocation, orphaned=True)
            changed |= self._state.observe(JobObserved(allocation))
        memory.orphaned = set(orphaned)
        return changed

    def _drop(self, key: JobKey, *, orphaned: bool = False, ran_s: int | None = None) -> bool:
        self._with_exclusions.discard(key)
        self._gpu_holders.replace(self._state.jobs.get(key), None, orphaned=orphaned)
        return self._state.observe(JobGone(key, ran_s))


def _ran_s(record: JobRecord) -> int | None:
    """Seconds that a finished job ran."""
    return record.status.usage.run_seconds if record.phase in TERMINAL and record.status.usage else None
