"""Quarantine of one job that the operator fails on: why, since when, the time of the next try, and its condition. Pure.

Pauses grow with the time since the first failure. The condition records that time, so a change of leader changes
nothing, and the number of tries need not be stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from cotenant.api.conversion import conditions
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import PendingStatus, TrainingJobStatus
from cotenant.contract.decoding.plain_text import plain_text
from cotenant.controller.telemetry.logs import shorten
from cotenant.core.model.lifecycle import HOLDING, Phase

CONDITION: Final = "Quarantined"
PAUSE_MIN_S, PAUSE_MAX_S = 1.0, 300.0
HOLDING_PAUSE_MAX_S = 30.0
"""Longest pause of a job that holds GPUs: its deadlines and its memory quota are checked only when it is tried."""
EDITED_PAUSE_S = 5.0
"""Pause before a document that was edited after the failure is tried."""
TRIAL_S = 2.0
"""After this long without a failure, a try has succeeded."""
FORGET_S = 600.0
"""A failure this long after the last one starts a new quarantine."""
MESSAGE_CHARS_MAX = 600


class Stage(StrEnum):
    """Stage at which the operator failed. It is the reason of the condition."""

    CONVERSION = "ConversionFailed"
    RECONCILE = "ReconcileFailed"
    SCHEDULING = "SchedulingFailed"
    EXECUTION = "ExecutionFailed"
    REFUSAL = "WriteRefused"
    """The API server refuses a write about the job, and would refuse it again."""


_WORDS: Final = {
    Stage.CONVERSION: "the operator cannot work with the job as it is written",
    Stage.RECONCILE: "the operator cannot find the next step of the job",
    Stage.SCHEDULING: "no decision can be made with this job among the others",
    Stage.EXECUTION: "what was decided for the job cannot be carried out",
    Stage.REFUSAL: "the API server refuses what has to be written",
}


@dataclass(slots=True, kw_only=True)
class Quarantine:
    stage: Stage
    message: str
    since: float
    """Time of the first failure. All times here are Unix seconds."""
    failed_at: float
    retry_at: float
    generation: int
    """Of the document that failed."""
    reported: bool = False
    """True if the condition was written, or could not be written."""
    tried_at: float | None = None
    """When the job was released for a try."""
    lifted: bool = False
    inherited: bool = False
    """True if only an earlier leader failed on the job. That leader may have admitted it since."""

    @property
    def again(self) -> bool:
        """It has failed more than once."""
        return self.failed_at > self.since

    def holds(self, generation: int, now: float) -> bool:
        """True if the job is to be left alone now."""
        return not self.lifted and self.tried_at is None and now < self.next_try(generation)

    def next_try(self, generation: int) -> float:
        """When a document of this generation is tried next."""
        edited = generation != self.generation
        return min(self.retry_at, self.failed_at + EDITED_PAUSE_S) if edited else self.retry_at

    @property
    def worked_at(self) -> float | None:
        """When the current try will count as successful."""
        return None if self.lifted or self.tried_at is None else self.tried_at + TRIAL_S

    def look_at(self, generation: int) -> float | None:
        """When the job has to be looked at: at the next try, and when a try has succeeded."""
        if self.lifted:
            return None
        return self.next_try(generation) if self.tried_at is None else self.worked_at


def quarantine_after(
    before: Quarantine | None, stage: Stage, error: str, *, generation: int, holding: bool, now: float
) -> Quarantine:
    """Quarantine after one more failure. It continues an earlier quarantine that ended recently."""
    since = before.since if before is not None and now - before.failed_at < FORGET_S else now
    sentence = f"{_WORDS[stage]}: {error}; it is tried again with growing pauses, and other jobs go on without it"
    message = shorten(plain_text(sentence, 2 * MESSAGE_CHARS_MAX), MESSAGE_CHARS_MAX)
    same = before is not None and not before.lifted and (before.stage, before.message) == (stage, message)
    return Quarantine(
        stage=stage,
        message=message,
        since=since,
        failed_at=now,
        retry_at=now + pause_s(since, now, holding=holding),
        generation=generation,
        reported=same and before is not None and before.reported,
    )


def pause_s(since: float, now: float, *, holding: bool) -> float:
    """Pause as long as the failure has lasted: each pause equals all earlier ones together, within bounds."""
    return min(max(now - since, PAUSE_MIN_S), HOLDING_PAUSE_MAX_S if holding else PAUSE_MAX_S)


def quarantine_in(status: TrainingJobStatus, *, generation: int, now: float) -> Quarantine | None:
    """Quarantine that an earlier leader wrote into a condition. It starts with a pause."""
    written = conditions.find_true(status.conditions, CONDITION)
    if written is None:
        return None
    since = min(now, unix_seconds(written.last_transition_time) or now)
    return Quarantine(
        stage=Stage(written.reason) if written.reason in set(Stage) else Stage.EXECUTION,
        message=written.message,
        since=since,
        failed_at=now,
        retry_at=now + pause_s(since, now, holding=status.phase in HOLDING),
        generation=generation,
        reported=True,
        inherited=True,
    )


def with_condition(status: TrainingJobStatus, quarantine: Quarantine, now: float) -> TrainingJobStatus:
    """The status with the quarantine's condition: true, or false once it is lifted."""
    if quarantine.lifted and conditions.find(status.conditions, CONDITION) is None:
        return status
    condition = conditions.renewed(
        status.conditions,
        CONDITION,
        str(not quarantine.lifted),
        "Lifted" if quarantine.lifted else quarantine.stage.value,
        "the operator continues with the job" if quarantine.lifted else quarantine.message,
        at=now if quarantine.lifted else quarantine.since,
        generation=quarantine.generation,
    )
    fields: dict[str, Any] = {"conditions": conditions.replaced(status.conditions, condition)}
    if not quarantine.lifted and status.phase in {None, Phase.PENDING}:  # no verdict says why it waits
        pending = PendingStatus(reason=CONDITION, message=quarantine.message, since=quarantine.since)
        fields |= {"phase": Phase.PENDING, "reason": CONDITION, "message": quarantine.message, "pending": pending}
    return status.model_copy(update=fields)
