"""Puts the situation of one job together from everything that is known, and asks `steps` what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.api.conversion.to_core import to_placement
from cotenant.controller.cluster.cluster_view import World
from cotenant.controller.execution.pod_creator import Births
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.observation import Situation, Step
from cotenant.controller.lifecycle.progress import news_for
from cotenant.controller.lifecycle.reconcile import next_step
from cotenant.controller.reports.progress_poller import Heard, Progresses
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import JobKey, Placement


@dataclass(slots=True, kw_only=True)
class Judging:
    world: World
    births: Births
    progresses: Progresses
    settings: Settings
    _busy_at: dict[JobKey, tuple[int, float]] = field(default_factory=dict)
    """Jobs with an idle timeout: (attempt, when something was last seen to move)."""

    def step(self, record: JobRecord, now: float) -> Step:
        return next_step(self.situation(record, now), self.settings)

    def situation(self, record: JobRecord, now: float) -> Situation:
        readable = self.world.readable(record, now)
        pods = self.world.mirror.pods_of(record.uid)
        placement = to_placement(record.status.placement) if record.status.placement else None
        latest = self.progresses.of(record)
        return Situation(
            name=record.name,
            status=record.status,
            spec=record.job.spec if record.job and not readable.problem else None,
            problem=readable.problem,
            generation=record.generation,
            deleting=record.deleting,
            pods=tuple(pods.values()),
            departed=self.world.mirror.departures.of(record.uid),
            milli=self.world.fleet.milli(placement) if placement else 0,
            violations=self.world.fleet.violations(pods),
            mismatch=self._mismatch(placement, latest),
            idle_since=self._idle_since(record, placement, latest, now),
            progress=news_for(record.status.progress, latest.progress, now) if latest else None,
            impossible=self.world.impossible(record, now),
            refusal=self.births.refusal(record),
            delay=self.births.delay(record),
            dead_nodes=self.world.mirror.dead,
            now=now,
        )

    def _mismatch(self, placement: Placement | None, latest: Heard | None) -> str:
        if placement is None or latest is None:
            return ""
        return self.world.fleet.mismatch(placement, latest.progress.observed_gpus)

    def _idle_since(
        self, record: JobRecord, placement: Placement | None, latest: Heard | None, now: float
    ) -> float | None:
        """Since when neither the step nor the GPUs of the job have moved, as far as this leader has seen."""
        if record.job is None or record.job.spec.idle_timeout is None or record.status.phase is not Phase.RUNNING:
            self._busy_at.pop(record.key, None)
            return None
        attempt, busy_at = self._busy_at.get(record.key, (record.status.attempts, now))
        if attempt != record.status.attempts or (placement is not None and self._busy_gpu(placement)):
            busy_at = now
        if latest is not None:
            busy_at = max(busy_at, latest.moved_at)
        self._busy_at[record.key] = (record.status.attempts, busy_at)
        return busy_at

    def _busy_gpu(self, placement: Placement) -> bool:
        held = {gpu.uuid for node in placement.nodes for rank in node.ranks for gpu in rank.gpus}
        for node in placement.nodes:
            seen = self.world.mirror.gpu_nodes.get(node.node)
            for gpu in seen.status.gpus if seen else ():
                if gpu.uuid in held and gpu.used and gpu.used.utilization_percent:
                    return True
        return False
