"""Meter of each TrainingJob, from its status and the GPUs of its placement; also of pods that outlive their job."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.api.resources.trainingjob_status import TrainingJobStatus, UsageStatus
from cotenant.controller.cluster.nodes.cluster_nodes import ClusterNodes
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.objects import JobKey, Placement
from cotenant.core.state.cluster_state import ClusterState
from cotenant.decision_log.showback.meters import Meter, Span


@dataclass(slots=True)
class JobMeters:
    cache: ObjectCache
    nodes: ClusterNodes
    state: ClusterState
    _over: dict[str, tuple[JobRecord, Meter | None]] = field(default_factory=dict)
    """Job uid → record of a job that holds nothing, with its meter. The meter depends on the record alone."""
    _outliving: dict[JobKey, int] = field(default_factory=dict)
    """Allocations of pods whose job is gone, each with the Unix time at which that was noticed."""

    def read(self, now: float) -> list[Meter]:
        """Meters of all jobs that ever held GPUs, and of all pods that hold GPUs after their job was deleted."""
        found: list[Meter] = []
        over: dict[str, tuple[JobRecord, Meter | None]] = {}
        for record in self.cache.jobs.values():
            known = self._over.get(record.uid)
            meter = known[1] if known is not None and known[0] is record else meter_of(record, self.nodes)
            if record.status.placement is None:
                over[record.uid] = (record, meter)
            if meter is not None:
                found.append(meter)
        self._over = over
        return found + self.outliving(now)

    def outliving(self, now: float) -> list[Meter]:
        """Pods that hold GPUs after their job's document is gone."""
        known = {record.uid for record in self.cache.jobs.values()}
        found: list[Meter] = []
        outliving: dict[JobKey, int] = {}
        for key, job in self.state.jobs.items():
            if "#" in key and job.queue and job.placement is not None and job.uid not in known:
                outliving[key] = self._outliving.get(key, int(now))
                gpu_class, milli = self.nodes.gpu_class_of(job.placement), self.nodes.held_milli(job.placement)
                span = Span(gpu_class=gpu_class, milli=milli, begun=outliving[key])
                found.append(Meter(uid=key, queue=job.queue, current=span))
        self._outliving = outliving
        return found


def meter_of(record: JobRecord, nodes: ClusterNodes) -> Meter | None:
    """The job's meter; None if it never held a GPU."""
    status = record.status
    if status.placement is None and status.usage is None:
        return None
    usage = status.usage or UsageStatus()
    last = _last(usage)
    return Meter(
        uid=record.uid,
        queue=record.queue_named,
        before=usage.gpu_milliseconds - (last.amount if last else 0),
        last=last,
        current=_current(status, record.placement, nodes),
    )


def _last(usage: UsageStatus) -> Span | None:
    held = usage.last_held
    if held is None:
        return None
    return Span(
        gpu_class=held.gpu_class,
        milli=held.milli,
        begun=int(held.since.timestamp()),
        ended=int(held.until.timestamp()),
        amount=min(held.milli_gpu_seconds, usage.gpu_milliseconds),
    )


def _current(status: TrainingJobStatus, placement: Placement | None, nodes: ClusterNodes) -> Span | None:
    if status.placement is None or placement is None:
        return None
    return Span(
        gpu_class=nodes.gpu_class_of(placement),
        milli=nodes.held_milli(placement),
        begun=int(status.placement.admitted_at.timestamp()),
    )
