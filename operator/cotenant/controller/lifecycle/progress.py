"""Progress as a launcher reports it (`contract`), turned into `status.progress`. Pure.

Lists with an entry for each rank are bounded, so that the status of the largest job stays far below the limit of etcd.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from cotenant import contract
from cotenant.api.resources.trainingjob_status import CheckpointStatus, ProgressStatus
from cotenant.api.scalars.fields import moment
from cotenant.controller.lifecycle import staged_data
from cotenant.core.model.formatting import format_duration

PER_RANK_BYTES_MAX: Final = 16 << 10
"""Characters for `observedGpus` and for `memoryPeakMiB`: some hundreds of ranks."""
REMAINING_S_MAX: Final = 10 * 365 * 86_400
"""Longer estimates, beyond ten years, are dropped."""
WARNINGS_MAX: Final = 32


def summary(progress: contract.Progress) -> ProgressStatus:
    """Progress as the status has it, without times. If two are equal, nothing is written."""
    checkpoint = None
    if progress.last_checkpoint_step is not None or progress.last_checkpoint_at is not None:
        checkpoint = CheckpointStatus(step=progress.last_checkpoint_step, at=progress.last_checkpoint_at)
    observed = _first_ranks({rank: tuple(uuids) for rank, uuids in progress.observed_gpus.items()})
    peaks = _first_ranks(progress.memory_peak_mib)
    warnings = progress.warnings[-WARNINGS_MAX:]
    if len(observed) < len(progress.observed_gpus) or len(peaks) < len(progress.memory_peak_mib):
        warnings += (f"observedGpus and memoryPeakMiB show the first {len(observed)} ranks of more",)
    fields = _step_fields(progress.step, progress.of, progress.remaining_s)
    if progress.state == staged_data.STATE:
        fields["summary"] = staged_data.sentence(progress)
    elif progress.lost_metrics:
        fields["summary"] = ", ".join(text for text in (fields["summary"], *progress.lost_metrics) if text)
    return ProgressStatus(
        **fields,
        state=progress.state,
        staging=staged_data.staging_status(progress),
        restarts=progress.restarts,
        rate=round(progress.rate, 3),
        metrics=dict(progress.metrics),
        last_checkpoint=checkpoint,
        collective=progress.collective,
        observed_gpus=observed,
        memory_peak_mib=peaks,
        busy=progress.busy,
        last_activity=progress.active_at,
        warnings=warnings,
    )


def progress_update(status: ProgressStatus | None, progress: contract.Progress, now: float) -> ProgressStatus | None:
    """Progress to write; None if the status has the same already."""
    fresh = summary(progress)
    known = None if status is None else status.model_copy(update={"updated_at": None})
    if known is not None and (known == fresh or known.to_document() == fresh.to_document()):
        return None
    return fresh.model_copy(update={"updated_at": moment(min(progress.updated_at or now, now))})


def final_progress(
    known: ProgressStatus | None, terminations: Collection[contract.Termination], *, state: str, now: float
) -> ProgressStatus | None:
    """Progress at the end of an attempt, from what its pods left behind.

    The last poll may be seconds older, and its estimate of the time left no longer holds. `state` says how the attempt
    ended.
    """
    head = next((one for one in terminations if one.node_rank == 0), None)
    saved = [one.last_checkpoint_step for one in terminations if one.last_checkpoint_step is not None]
    told = head is not None and (head.step or head.warnings or head.restarts or head.staging_bytes)
    if known is None and not told and not saved:
        return None
    before = known or ProgressStatus()
    step, of = (head.step, head.of) if head and head.step else (before.step, before.of)
    fields: dict[str, Any] = _step_fields(step, of) | {"state": state}
    if saved and (before.last_checkpoint is None or before.last_checkpoint.step != max(saved)):
        fields["last_checkpoint"] = CheckpointStatus(step=max(saved))
    if head and (staging := staged_data.final_staging(head)):
        fields["staging"] = staging
    if head and head.restarts:
        fields["restarts"] = head.restarts
    if head and head.warnings:
        both = dict.fromkeys((*before.warnings, *head.warnings))
        fields["warnings"] = tuple(both)[-WARNINGS_MAX:]
    changed = before.model_copy(update=fields)
    return known if changed == known else changed.model_copy(update={"updated_at": moment(now)})


def _first_ranks(of_ranks: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of the lowest ranks, as many as there is room for."""
    kept: dict[str, Any] = {}
    room = PER_RANK_BYTES_MAX
    for rank in sorted(of_ranks, key=int):
        room -= len(str(of_ranks[rank])) + 16
        if room < 0:
            break
        kept[rank] = of_ranks[rank]
    return kept


def _step_fields(step: int, of: int, remaining_s: float | None = None) -> dict[str, Any]:
    percent = min(100, 100 * step // of) if of > 0 else None
    text = f"{step}/{of} ({percent} %)" if percent is not None else str(step or "")
    remaining = None if remaining_s is None or remaining_s > REMAINING_S_MAX else math.ceil(remaining_s)
    if remaining:
        text += f", {format_duration(coarse(remaining))} left"
    return {"step": step, "of": of, "percent": percent, "remaining_seconds": remaining, "summary": text}


def coarse(seconds: int) -> int:
    """Time left for a table: whole minutes from five minutes on, tens of seconds from one minute on."""
    grain = 60 if seconds >= 300 else 10 if seconds >= 60 else 1
    return seconds - seconds % grain
