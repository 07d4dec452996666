"""Keeps the core's `ClusterState` in step with the object cache: nodes, queues, and jobs that wait or hold GPUs.

A pod that may still run holds its GPUs whatever has become of its job, and where no committed placement covers it, an
orphaned allocation stands in. So nothing is handed out twice, after a crash or a deletion either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cotenant.api.conversion.to_core import to_queue
from cotenant.controller.client.kube import QUEUES
from cotenant.controller.cluster.budgets import Budgets
from cotenant.controller.cluster.core_jobs import CoreJobs
from cotenant.controller.cluster.failover import failover_state
from cotenant.controller.cluster.foreign_claims import claim_holder, claim_key
from cotenant.controller.cluster.gpu_holders import GpuHolders
from cotenant.controller.cluster.nodes import ClusterNodes
from cotenant.controller.cluster.orphaned_allocations import orphaned_allocations
from cotenant.controller.cluster.placement_validation import PlacementValidator, covers, pod_contradiction
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import CoreReading, JobMemories
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import HOLDING, TERMINAL
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Action, Plan
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import JobGone, JobObserved, QueueGone, QueueObserved


@dataclass(frozen=True, slots=True)
class Synced:
    """Result of one sync."""

    jobs: frozenset[JobId]
    """Jobs that changed, or whose pods did."""
    decisions_may_change: bool
    """Something that decisions depend on is other than it was."""
    failures: Mapping[JobId, Exception]
    """Jobs that cannot be made one of the core's, and why; what they hold still counts."""


class ClusterView:
    """One writer: the scheduling loop, between two decisions."""

    def __init__(self, cache: ObjectCache, memories: JobMemories, settings: Settings, budgets: Budgets) -> None:
        self._cache, self._pods = cache, cache.pods
        self._memories = memories
        self._budgets = budgets
        self._budget_revision = -1
        self._state = ClusterState(history_half_life_s=settings.history_half_life_s)
        self._watched_since: float | None = None
        self._labelled_only = settings.tenant_namespaces == "labelled"
        self._served: set[str] = set()
        """Namespaces that some queue serves."""
        self._with_exclusions: set[JobKey] = set()
        """Waiting jobs that avoid a node for some time."""
        self._resolved: list[tuple[JobId, Action, int | None]] = []
        self._gpu_holders = GpuHolders()
        self._core_jobs = CoreJobs(cache, memories, settings)
        self.nodes = ClusterNodes(cache, self._state, settings)
        self.placements = PlacementValidator(cache, self.nodes, self._gpu_holders, self._core_jobs)

    def restore(self, now: float) -> None:
        """Look at everything anew as a new leader, go on from what the last one wrote down, and give what is not found
        time to appear.
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
        """Take over what has changed in the cache, and what has become of the actions that were assumed."""
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
        changed |= self.nodes.sync(changes.nodes, now)
        of_nodes = (self._cache.claims.on_node(name) for name in changes.nodes)
        changed |= self._sync_claims(changes.claims.union(*of_nodes))
        if changes.queues or self._budget_revision != self._budgets.revision:
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
        return Synced(frozenset(changes.jobs), changed, failures)

    def jobs_alone(self, now: float) -> Snapshot:
        """The snapshot without what is counted of it: to look for the job that cannot be counted, or decided on."""
        return self._state.bare_snapshot(now)

    def snapshot(self, now: float) -> Snapshot:
        """Input of the next decision."""
        watched_since = now if self._watched_since is None else self._watched_since
        return replace(self._state.snapshot(now), watched_since=watched_since)

    def advance(self, now: float) -> None:
        self._state.advance(now)

    def assume(self, plan: Plan, now: float) -> None:
        """Count every action of a plan as done, before it is carried out."""
        self._state.assume(plan, now)

    def resolve_assumption(self, job: JobId, action: Action, version: int | None) -> None:
        """Note that an action on this very job was written at this version, or was not. It counts from the next sync
        on: while a decision is made, in its thread, the state does not change.
        """
        self._resolved.append((job, action, version))

    def read_job(self, record: JobRecord, now: float) -> CoreReading:
        return self._core_jobs.reading(record, now)

    def _read_or_none(self, record: JobRecord, now: float) -> Job | None:
        try:
            return self.read_job(record, now).job
        except Exception:  # it is quarantined by the sync that follows
            return None

    def _sync_queues(self, now: float) -> bool:
        changed = False
        for name in set(self._state.queues) - set(self._cache.queues):
            changed |= self._state.observe(QueueGone(name))
        for name, document in self._cache.queues.items():
            spent = self._budgets.spent(name)
            try:
                queue = to_queue(
                    document,
                    namespaces=self._cache.namespaces,
                    spent_milli_gpu_seconds=spent,
                    budget_until=self._budgets.until(document, now),
                    labelled_only=self._labelled_only,
                )
            except Exception as error:
                self._cache.note_unreadable(QUEUES, name, error)
                changed |= self._state.observe(QueueGone(name))  # it grants nothing
            else:
                changed |= self._state.observe(QueueObserved(queue))
        served = {namespace for queue in self._state.queues.values() for namespace in queue.namespaces}
        if served != self._served:
            pods = (pod.worker.job for pod in self._pods.ours() if pod.worker)
            self._cache.mark_changed(job for job in pods if job.namespace in served ^ self._served)
            self._served = served
        return changed

    def _sync_claims(self, keys: Iterable[str]) -> bool:
        """What ResourceClaims of others hold, of GPUs that are listed now."""
        changed = False
        for key in keys:
            claim = self._cache.claims.get(key)
            holder = claim_holder(claim, self.nodes.known()) if claim is not None else None
            if holder is None:
                if claim_key(key) in self._state.jobs:
                    changed |= self._drop(claim_key(key), orphaned=True)
                continue
            self._gpu_holders.replace(self._state.jobs.get(holder.key), holder, orphaned=True)
            changed |= self._state.observe(JobObserved(holder))
        return changed

    def _sync_job(self, key: JobKey, now: float, failures: dict[JobId, Exception]) -> bool:
        record = self._cache.jobs.get(key)
        if record is None:
            return self._drop(key)
        try:
            return self._observe(record, self._core_jobs.job(record, now))
        except Exception as error:
            failures[record.id] = error
            return self._observe(record, self._core_jobs.as_it_holds(record))

    def _observe(self, record: JobRecord, job: Job | None) -> bool:
        if job is None:
            return self._drop(record.key, ran_s=_ran_s(record))
        if job.excluded_nodes and job.placement is None:
            self._with_exclusions.add(record.key)
        else:
            self._with_exclusions.discard(record.key)
        self._gpu_holders.replace(self._state.jobs.get(record.key), job)
        return self._state.observe(JobObserved(job, record.version))

    def granted_pods(self, job: JobId) -> tuple[PodRecord, ...]:
        """Pods of the job, without those that no decision of ours can have made."""
        return tuple(pod for pod in self._pods.of_job(job).values() if self._is_granted(pod))

    def _is_granted(self, pod: PodRecord) -> bool:
        """Anybody may write a contract into a pod where no policy looks. One counts in a namespace that a queue serves,
        or where its attempt has been committed.
        """
        if pod.worker is None:
            return False
        job, memory = pod.worker.job, self._memories[pod.worker.job]
        record = self._cache.job(job)
        if record is not None:
            memory.attempts = max(memory.attempts, record.status.attempts)
        if job.namespace in self._served:
            memory.attempts = max(memory.attempts, pod.worker.attempt)
        return 1 <= pod.worker.attempt <= memory.attempts

    def _sync_orphaned(self, job: JobId) -> bool:
        """One allocation for each attempt that still has pods which no committed placement covers."""
        uncovered = [pod for pod in self._uncovered_pods(job) if self._is_granted(pod)]
        self.nodes.note_ungranted(job, [pod for pod in self._pods.of_job(job).values() if not self._is_granted(pod)])
        orphaned = orphaned_allocations(uncovered, job, self._queue_of(job, uncovered)) if uncovered else {}
        memory, changed = self._memories[job], False
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

    def _queue_of(self, job: JobId, pods: Iterable[PodRecord]) -> str:
        """Queue of its spec; where the job is gone, one that serves its namespace: that of a label, if it does."""
        record = self._cache.job(job)
        if record is not None and record.job is not None:
            return record.job.spec.queue
        serving = sorted(name for name, queue in self._state.queues.items() if job.namespace in queue.namespaces)
        labels = {pod.queue_label for pod in pods}
        return next((name for name in serving if name in labels), serving[0] if serving else "")

    def _uncovered_pods(self, job: JobId) -> list[PodRecord]:
        """Pods of the job whose GPUs no committed placement covers: those that may be there already included."""
        pods, departed = self._pods.holding(job)
        seen = {pod.name for pod in pods}
        unsettled = [pod for name, pod in self._memories[job].unsettled.items() if name not in seen]
        record = self._cache.job(job)
        if (
            record is None
            or record.phase not in HOLDING
            or record.placement is None
            or self._core_jobs.gave_back(record)
        ):
            return [*pods, *departed, *unsettled]
        # Of the running attempt, the status counts only as far as it names what the pod was given.
        attempt, placement = record.status.attempts, record.placement
        uncovered = [
            pod
            for pod in pods
            if not pod.is_before(attempt) and (not pod.is_of(attempt) or pod_contradiction(placement, [pod]))
        ]
        uncovered += [pod for pod in unsettled if not pod.is_of(attempt)]
        return uncovered + [pod for pod in departed if not (pod.is_of(attempt) and covers(placement, pod))]


def _ran_s(record: JobRecord) -> int | None:
    """How long a job ran that came to its end."""
    return record.status.usage.run_seconds if record.phase in TERMINAL and record.status.usage else None
