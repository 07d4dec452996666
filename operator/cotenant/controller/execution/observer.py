"""Puts the situation of one job together from everything that is known, and asks `steps` what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.api.conversion.to_core import to_placement
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.execution.pod_creator import PodCreator
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.observation import Observation, ReconcileResult
from cotenant.controller.lifecycle.progress import progress_update
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.reports.progress_poller import ProgressPoller, ProgressSample
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import JobKey, Placement


@dataclass(slots=True, kw_only=True)
class Observer:
    cluster: ClusterView
    pod_creator: PodCreator
    progress_poller: ProgressPoller
    settings: Settings
    _active_at: dict[JobKey, tuple[int, float]] = field(default_factory=dict)
    """Jobs with an idle timeout: (attempt, when something was last seen to move)."""

    def reconcile(self, record: JobRecord, now: float) -> ReconcileResult:
        return reconcile(self.observe(record, now), self.settings)

    def observe(self, record: JobRecord, now: float) -> Observation:
        readable = self.cluster.reading(record, now)
        pods = self.cluster.cache.pods_of(record.uid)
        placement = to_placement(record.status.placement) if record.status.placement else None
        latest = self.progress_poller.latest(record)
        return Observation(
            name=record.name,
            status=record.status,
            spec=record.job.spec if record.job and not readable.problem else None,
            problem=readable.problem,
            generation=record.generation,
            deleting=record.deleting,
            pods=tuple(pods.values()),
            disruptions=self.cluster.cache.deleted_pods.disruptions_of(record.uid),
            held_milli=self.cluster.nodes.held_milli(placement) if placement else 0,
            violations=self.cluster.nodes.violations(pods),
            isolation_mismatch=self._isolation_mismatch(placement, latest),
            idle_since=self._idle_since(record, placement, latest, now),
            progress=progress_update(record.status.progress, latest.progress, now) if latest else None,
            placement_error=self.cluster.placement_error(record, now),
            creation_rejection=self.pod_creator.rejection(record),
            creation_delay=self.pod_creator.delay(record),
            dead_nodes=self.cluster.cache.unreachable,
            now=now,
        )

    def _isolation_mismatch(self, placement: Placement | None, latest: ProgressSample | None) -> str:
        if placement is None or latest is None:
            return ""
        return self.cluster.nodes.isolation_mismatch(placement, latest.progress.observed_gpus)

    def _idle_since(
        self, record: JobRecord, placement: Placement | None, latest: ProgressSample | None, now: float
    ) -> float | None:
        """Since when neither the step nor the GPUs of the job have moved, as far as this leader has seen."""
        if record.job is None or record.job.spec.idle_timeout is None or record.status.phase is not Phase.RUNNING:
            self._active_at.pop(record.key, None)
            return None
        attempt, busy_at = self._active_at.get(record.key, (record.status.attempts, now))
        if attempt != record.status.attempts or (placement is not None and self._any_gpu_busy(placement)):
            busy_at = now
        if latest is not None:
            busy_at = max(busy_at, latest.step_changed_at)
        self._active_at[record.key] = (record.status.attempts, busy_at)
        return busy_at

    def _any_gpu_busy(self, placement: Placement) -> bool:
        held = {gpu.uuid for node in placement.nodes for rank in node.ranks for gpu in rank.gpus}
        for node in placement.nodes:
            seen = self.cluster.cache.gpu_nodes.get(node.node)
            for gpu in seen.status.gpus if seen else ():
                if gpu.uuid in held and gpu.used and gpu.used.utilization_percent:
                    return True
        return False
