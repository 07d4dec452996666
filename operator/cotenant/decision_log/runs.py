"""Records of runs, which outlive their TrainingJobs: how each ended, what it cost and used, and its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from cotenant import names
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.scalars.fields import show_time
from cotenant.api.scalars.quantities import show_memory
from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.lifecycle import TERMINAL, Phase
from cotenant.decision_log.measured_use import NOTHING_MEASURED, MeasuredUse
from cotenant.decision_log.timelines import NOTHING_HAPPENED, Timeline
from cotenant.query.redaction import Sees, redacted

TAIL_LINES_MAX: Final = 40
DELETED: Final = "Deleted"
"""Outcome of a run whose TrainingJob was deleted before it had ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Times are texts as the API writes them, empty if there is none."""

    namespace: str
    name: str
    uid: str
    queue: str
    user: str = ""
    outcome: str
    """`Succeeded`, `Failed` or `Deleted`; the phase of an unfinished run."""
    reason: str = ""
    message: str = ""
    created_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    workers: int = 0
    """Workers that it asked for."""
    gpu: str = ""
    """GPUs of each worker: `2`, `0.4`, `16Gi`."""
    gpu_class: str = ""
    """Class that it held last; empty if unknown."""
    gpu_milliseconds: int = 0
    """Milli-GPU × seconds that it held, over all attempts."""
    run_seconds: int = 0
    expected_seconds: int | None = None
    """Expected run time in its document."""
    attempts: int = 0
    failures: int = 0
    faults: int = 0
    restarts: int = 0
    steps: int = 0
    steps_of: int = 0
    checkpoints: bool = False
    """True if its document names a checkpoint."""
    exit_code: int | None = None
    exit_reason: str = ""
    exit_rank: int | None = None
    tail: tuple[str, ...] = ()
    """The last lines of the rank that failed first."""
    results: Mapping[str, int | float | str] = field(default_factory=dict)
    memory_peak_mib: int = 0
    """Peak of one rank, as its framework counts; 0 if unknown."""
    use: MeasuredUse = NOTHING_MEASURED
    timeline: Timeline = NOTHING_HAPPENED

    def as_seen(self, sees: Sees) -> RunRecord:
        """The run without the names of jobs that the caller may not read."""
        shown = tuple(
            replace(one, message=redacted(one.message, one.mentions, sees)) for one in self.timeline.happenings
        )
        return replace(
            self,
            message=redacted(self.message, self.namespaces, sees),
            timeline=replace(self.timeline, happenings=shown),
        )

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces of the jobs that it names."""
        return frozenset(one for happening in self.timeline.happenings for one in happening.mentions)

    @property
    def is_over(self) -> bool:
        return self.outcome in {DELETED, *(phase.value for phase in TERMINAL)}


def run_of(
    job: TrainingJob,
    *,
    deleted_at: str = "",
    held_ms: int | None = None,
    ran_s: int = 0,
    timeline: Timeline = NOTHING_HAPPENED,
    use: MeasuredUse = NOTHING_MEASURED,
) -> RunRecord:
    """The record of a job as it is now.

    `deleted_at` is set if its document is gone. `held_ms` is the milli-GPU × seconds that it has held, if that is more
    than its status says. `ran_s` is the seconds of the running attempt, which its status does not include.
    """
    spec, status, metadata = job.spec, job.status, job.metadata
    phase = Phase(status.phase or Phase.PENDING)
    last, progress, usage = status.last_exit, status.progress, status.usage
    peaks = progress.memory_peak_mib.values() if progress else ()
    return RunRecord(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        uid=metadata.uid or "",
        queue=spec.queue,
        user=(metadata.annotations or {}).get(names.ANNOTATION_USER, ""),
        outcome=DELETED if deleted_at and phase not in TERMINAL else phase.value,
        reason=status.reason or "",
        message=status.message or "",
        created_at=_text(metadata.creation_timestamp),
        started_at=_text(status.started_at),
        finished_at=_text(status.finished_at) or deleted_at,
        workers=spec.workers,
        gpu=_gpu(job),
        gpu_class=timeline.gpu_class,
        gpu_milliseconds=held_ms if held_ms is not None else usage.gpu_milliseconds if usage else 0,
        run_seconds=(usage.run_seconds if usage else 0) + ran_s,
        expected_seconds=spec.expected_runtime,
        attempts=status.attempts,
        failures=status.failures,
        faults=status.faults,
        restarts=status.restarts,
        steps=progress.step if progress else 0,
        steps_of=progress.of if progress else 0,
        checkpoints=spec.checkpoint is not None,
        exit_code=last.code if last else None,
        exit_reason=last.reason if last else "",
        exit_rank=last.rank if last else None,
        tail=last.tail[-TAIL_LINES_MAX:] if last else (),
        results=dict(status.results or {}),
        memory_peak_mib=max(peaks, default=0),
        use=use,
        timeline=timeline,
    )


def has_ended(status: TrainingJobStatus) -> bool:
    """True if it is over and has given everything back: its record does not change any more."""
    return Phase(status.phase or Phase.PENDING) in TERMINAL and status.placement is None


def _text(moment: datetime | None) -> str:
    return show_time(moment) if moment else ""


def _gpu(job: TrainingJob) -> str:
    gpu = job.spec.gpu
    several = f"{gpu.count} × " if (gpu.count or 1) > 1 else ""
    if gpu.memory_fraction is not None:
        return several + format_gpus(gpu.memory_fraction)
    return several + show_memory(gpu.memory) if gpu.memory is not None else str(gpu.count or 1)
