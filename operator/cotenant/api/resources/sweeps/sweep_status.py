"""Status of a Sweep, written by the controller. That a trial stands in it is what starts the trial."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from cotenant.api.resources.trainingjob_status import Condition, Metrics
from cotenant.api.scalars.fields import Timestamp, keyed_by
from cotenant.api.scalars.status_fields import NameOfObject, Sentence, Word, at_most, cut_at, entries
from cotenant.api.validation.rules import StatusModel

MAX_TRIALS: Final = 500
"""All of them stand in the status, with their values: what is decided next is decided from it."""
MAX_VALUES: Final = 2000
"""Trials × parameters, for the same reason."""
MAX_PARAMETERS: Final = 16
MAX_MEMBERS: Final = 16
MAX_RUNGS: Final = 10
"""With a factor of 2 the last of them is at 512 times the steps of the first: after it nothing is stopped."""
MESSAGE_CHARS_MAX: Final = 120
CONDITIONS_MAX: Final = 6


class SweepPhase(StrEnum):
    RUNNING = "Running"
    """Trials run, or wait in their queue."""
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    """All trials are over, and at least one has a result."""
    FAILED = "Failed"


class TrialPhase(StrEnum):
    WAITING = "Waiting"
    """Its jobs are on their way, or wait in their queue."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    STOPPED = "Stopped"
    """Ended early, because others were better at the same step."""
    FAILED = "Failed"


OVER: Final = frozenset({TrialPhase.SUCCEEDED, TrialPhase.STOPPED, TrialPhase.FAILED})


class Rung(StatusModel):
    """The metric of a trial at a rung: where it was compared with the others."""

    step: int
    """When the trial was seen there; not before the rung's own step."""
    value: float


class TrialStatus(StatusModel):
    parameters: Annotated[dict[str, Annotated[str, *cut_at(64)]], *entries(MAX_PARAMETERS)] = Field(
        default_factory=dict
    )
    """As the program gets them."""
    phase: TrialPhase = TrialPhase.WAITING
    seen: Annotated[tuple[int, ...], *at_most(MAX_MEMBERS)] = ()
    """Members whose TrainingJob was there: one that is missing later was deleted, and is not made again."""
    step: int | None = None
    """Steps made when this was written."""
    value: float | None = None
    """The objective: at the end, or when the trial was last looked at; of an ensemble the members' combined."""
    members: Annotated[dict[str, float], *entries(MAX_MEMBERS)] = Field(default_factory=dict)
    """Member → its own value, where there are several."""
    rungs: Annotated[tuple[Rung, ...], *at_most(MAX_RUNGS)] = ()
    message: Annotated[str, *cut_at(MESSAGE_CHARS_MAX)] = ""
    """Why it was stopped, or failed; or why none of its jobs can be made now."""


class BestTrial(StatusModel):
    """The best of the trials that have ended by themselves."""

    trial: int
    """Its number."""
    job: NameOfObject
    """Its TrainingJob; of an ensemble the member with the best value of its own."""
    value: float
    parameters: Annotated[dict[str, Annotated[str, *cut_at(64)]], *entries(MAX_PARAMETERS)] = Field(
        default_factory=dict
    )
    results: Metrics = Field(default_factory=dict)
    """Final metrics of that job."""
    checkpoint: Annotated[str, *cut_at(600)] | None = None
    """Where its checkpoints are: a folder in its volume, or the address of a store."""
    checkpoint_step: int | None = None
    """Step of the newest one."""


class TrialCounts(StatusModel):
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    stopped: int = 0
    failed: int = 0


class SweepStatus(StatusModel):
    phase: SweepPhase | None = None
    reason: Word | None = None
    message: Sentence | None = None
    """The same as a sentence for a person."""
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type"), *at_most(CONDITIONS_MAX)] = ()
    trials: Annotated[dict[str, TrialStatus], *entries(MAX_TRIALS)] = Field(default_factory=dict)
    """Number → trial."""
    counts: TrialCounts | None = None
    summary: Word | None = None
    """Trials that are over, of all: `12/32`."""
    best: BestTrial | None = None
    best_value: Word | None = None
    """The best value so far, for a table."""
    suspended: bool = False
    """The jobs of the trials were suspended with the sweep, and are resumed with it."""
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    observed_generation: int = Field(default=0, ge=0)
