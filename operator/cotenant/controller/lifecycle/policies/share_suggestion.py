"""`status.suggestion` of jobs with a share, and `spec.gpu.autoSize`, which applies it at the next attempt. Pure.

A suggestion only grows: it is the peak of all attempts plus a quarter. If an attempt had less memory than the job asks
for and ran out of it, nobody is charged. The job is then tried again with all that it asks for, and keeps that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cotenant.api.resources.trainingjob_status import SuggestionStatus, TrainingJobStatus
from cotenant.api.scalars.fields import moment
from cotenant.api.scalars.quantities import mib_up, show_mib
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.termination import Eviction
from cotenant.core.model.lifecycle import LifecycleEvent, Phase

TOO_SMALL: Final = "ShareTooSmall"
OUT_OF_MEMORY: Final = frozenset({"OutOfGPUMemory", "GPUMemoryQuotaExceeded"})


def with_suggestion(o: Observation, result: ReconcileResult) -> ReconcileResult:
    """The result, with the suggestion if a higher peak was measured."""
    known, peak = o.status.suggestion, o.peak
    if peak is None or o.phase is not Phase.RUNNING or (known is not None and known.memory_mib >= peak.needed_mib):
        return result
    basis = f"the peak of attempt {peak.attempt} and a quarter more"
    made = SuggestionStatus(memory_mib=peak.needed_mib, peak_mib=peak.peak_mib, basis=basis, at=moment(o.now))
    return replace(result, status=_with(result.status or o.status, made))


def takes_of_another(record: JobRecord) -> bool:
    """True if the job waits for its first attempt and may use the suggestion of a job like it."""
    gpu = record.job.spec.gpu_given if record.job else None
    sized = gpu is not None and gpu.auto_size
    return sized and record.phase is Phase.PENDING and not record.status.attempts and record.status.suggestion is None


def of_another(o: Observation) -> ReconcileResult | None:
    """Write the suggestion of a job like this one."""
    if o.of_another is None or not takes_of_another(o.record):
        return None
    made = o.of_another.model_copy(update={"basis": "measured of an earlier job of this name", "at": moment(o.now)})
    event = EventToRecord(
        reason="ShareSuggested",
        message=f"spec.gpu.autoSize: it takes {show_mib(made.memory_mib)} of a GPU, or what it asks for where that is"
        f" less; an earlier job of this name had {show_mib(made.peak_mib)} at most",
    )
    return ReconcileResult(status=_with(o.status, made), delete_pods=o.stoppable, event=event)


def too_small(o: Observation, end: AttemptEnd) -> Eviction | None:
    """Requeue the job with all the memory that it asks for: it had less, and ran out of GPU memory.

    This happens at most once for a job.
    """
    gpu = o.spec.gpu if o.spec else None
    if gpu is None or not gpu.auto_size or gpu.memory is None or o.record.placement is None:
        return None
    if end.outcome is not AttemptOutcome.FAILED or end.exit.reason not in OUT_OF_MEMORY:
        return None
    asked = mib_up(gpu.memory)
    held = [grant.memory_mib for node in o.record.placement.nodes for rank in node.ranks for grant in rank.gpus]
    if min(held, default=asked) >= asked:
        return None
    basis = f"{show_mib(min(held))} were too little in attempt {o.status.attempts}"
    made = SuggestionStatus(memory_mib=asked, peak_mib=min(held), basis=basis, at=moment(o.now))
    message = f"{end.exit.message or 'it ran out of GPU memory'}; {basis} (spec.gpu.autoSize): it is tried again with"
    return Eviction(
        event=LifecycleEvent.CRASHED,
        kind=TOO_SMALL,
        message=f"{message} {show_mib(asked)}, and that counts as no failure",
        fields={"last_exit": end.exit, "suggestion": made},
    )


def _with(status: TrainingJobStatus, suggestion: SuggestionStatus) -> TrainingJobStatus:
    return status.model_copy(update={"suggestion": suggestion})
