"""Status of a Sweep, written by the controller. A trial starts because it is listed in it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from cotenant.api.resources.trainingjob_status import Condition, Metrics
from cotenant.api.scalars.fields import Timestamp, keyed_by
from cotenant.api.scalars.status_fields import NameOfObject, Sentence, Word, at_most, cut_at, entries
from cotenant.api.validation.rules import StatusModel

MAX_TRIALS: Final = 500
"""The status lists all trials with their values, because the next decision needs them."""
MAX_VALUES: Final = 2000
"""Trials × parameters, for the same reason."""
MAX_PARAMETERS: Final = 16
MAX_MEMBERS: Final = 16
MAX_RUNGS: Final = 10
"""With a factor of 2, the last rung is at 512 times the steps of the first. After it no trial is stopped."""
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
    """Its jobs are being made, or wait in their queue."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    STOPPED = "Stopped"
    """Stopped early, because others were better at the same step."""
    FAILED = "Failed"


OVER: Final = frozenset({TrialPhase.SUCCEEDED, TrialPhase.STOPPED, TrialPhase.FAILED})


class Rung(StatusModel):
    """The metric of a trial at a rung, at which it was compared with the others."""

    step: int
    """Step at which the trial was seen; not before the rung's own step."""
    value: float


class TrialStatus(StatusModel):
    parameters: Annotated[dict[str, Annotated[str, *cut_at(64)]], *entries(MAX_PARAMETERS)] = Field(
        default_factory=dict
    )
    """Values as the program gets them."""
    phase: TrialPhase = TrialPhase.WAITING
    seen: Annotated[tuple[int, ...], *at_most(MAX_MEMBERS)] = ()
    """Members whose TrainingJob was seen. If one is missing later, it was deleted and is not made again."""
    step: int | None = None
    """Steps made when this was written."""
    value: float | None = None
    """The objective, at the end or at the last look; of an ensemble, its members' values combined."""
    members: Annotated[dict[str, float], *entries(MAX_MEMBERS)] = Field(default_factory=dict)
    """Member → its own value, if there are several."""
    rungs: Annotated[tuple[Rung, ...], *at_most(MAX_RUNGS)] = ()
    message: Annotated[str, *cut_at(MESSAGE_CHARS_MAX)] = ""
    """Why it was stopped or has failed, or why its jobs cannot be made now."""


class BestTrial(StatusModel):
    """The best of the trials that ended by themselves."""

    trial: int
    """Its number."""
    job: NameOfObject
    """Its TrainingJob; of an ensemble, the member with the best value."""
    value: float
    parameters: Annotated[dict[str, Annotated[str, *cut_at(64)]], *entries(MAX_PARAMETERS)] = Field(
        default_factory=dict
    )
    results: Metrics = Field(default_factory=dict)
    """Final metrics of that job."""
    checkpoint: Annotated[str, *cut_at(600)] | None = None
    """Its checkpoints: a folder in its volume, or an address in a store."""
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
    """Finished trials of all trials: `12/32`."""
    best: BestTrial | None = None
    best_value: Word | None = None
    """The best value so far, for a table."""
    suspended: bool = False
    """True if the jobs of the trials were suspended with the sweep. They are resumed with it."""
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    observed_generation: int = Field(default=0, ge=0)
