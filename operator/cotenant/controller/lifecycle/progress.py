"""From the progress that a launcher reports (`contract`) to `status.progress`. Pure."""

from __future__ import annotations

import math
from typing import Any

from cotenant import contract
from cotenant.api.resources.trainingjob_status import CheckpointStatus, ProgressStatus
from cotenant.api.scalars.quantities import show_duration
from cotenant.controller.lifecycle.status_transitions import moment


def summary(progress: contract.Progress) -> ProgressStatus:
    """As the status has it, without the time: what is equal here is not written again."""
    checkpoint = None
    if progress.last_checkpoint_step is not None or progress.last_checkpoint_at is not None:
        checkpoint = CheckpointStatus(step=progress.last_checkpoint_step, at=progress.last_checkpoint_at)
    return ProgressStatus(
        **_step_fields(progress.step, progress.of, progress.remaining_s),
        state=progress.state,
        rate=round(progress.rate, 3),
        metrics=dict(progress.metrics),
        last_checkpoint=checkpoint,
        collective=progress.collective,
        observed_gpus={rank: tuple(uuids) for rank, uuids in progress.observed_gpus.items()},
        memory_peak_mib=dict(progress.memory_peak_mib),
        warnings=progress.warnings,
    )


def progress_update(status: ProgressStatus | None, progress: contract.Progress, now: float) -> ProgressStatus | None:
    """Progress to write, or None when the status has the same already."""
    fresh = summary(progress)
    if status is not None and status.model_copy(update={"updated_at": None}) == fresh:
        return None
    return fresh.model_copy(update={"updated_at": moment(progress.updated_at or now)})


def final_progress(
    known: ProgressStatus | None, termination: contract.Termination | None, now: float
) -> ProgressStatus | None:
    """Progress at the end of an attempt: the last poll may be seconds older than what rank 0's pod left behind."""
    if termination is None or not termination.step:
        return known
    fields = _step_fields(termination.step, termination.of) | {"state": "done", "updated_at": moment(now)}
    return (known or ProgressStatus()).model_copy(update=fields)


def _step_fields(step: int, of: int, remaining_s: float | None = None) -> dict[str, Any]:
    percent = min(100, 100 * step // of) if of > 0 else None
    text = f"{step}/{of} ({percent} %)" if percent is not None else str(step or "")
    remaining = None if remaining_s is None else math.ceil(remaining_s)
    if remaining:
        text += f", {show_duration(coarse(remaining))} left"
    return {"step": step, "of": of, "percent": percent, "remaining_seconds": remaining, "summary": text}


def coarse(seconds: int) -> int:
    """For a table: whole minutes from five minutes on, tens of seconds from one minute on."""
    grain = 60 if seconds >= 300 else 10 if seconds >= 60 else 1
    return seconds - seconds % grain
