"""Status of a Session, written by the operator alone."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.fields import Timestamp, keyed_by
from cotenant.api.scalars.status_fields import Line, NameOfObject, Sentence, Word, at_most
from cotenant.api.validation.rules import StatusModel

CONDITIONS_MAX = 10


class SessionPhase(StrEnum):
    PENDING = "Pending"
    STARTING = "Starting"
    """Its pod or its application starts: nobody can open it yet."""
    RUNNING = "Running"
    """Its application accepts connections."""
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    ENDED = "Ended"
    FAILED = "Failed"


class SessionStatus(StatusModel):
    phase: Word = ""
    """Pending, Starting, Running, Suspending, Suspended; Ended (the application ended by itself), Failed."""
    reason: Word = ""
    """The dominant reason, one word."""
    message: Sentence = ""
    """What happened, and what to do about it."""
    job: NameOfObject | None = None
    """Its TrainingJob."""
    attempt: int = Field(default=0, ge=0)
    """Attempt of that job in which the application runs; 0 if it does not run."""
    port: int | None = None
    """Port of the application on 127.0.0.1 of its pod; absent for a shell."""
    path: Line | None = None
    """Path of the application: the part of its address after host and port."""
    started_at: Timestamp | None = None
    """When it first ran since it was started or resumed."""
    ends_at: Timestamp | None = None
    """When `maxLifetime` is over."""
    last_activity: Timestamp | None = None
    """When a kernel last ran, a terminal was used, or a GPU was busy; some seconds old."""
    suspends_at: Timestamp | None = None
    """When it will be suspended if nothing changes; present after a warning."""
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type"), *at_most(CONDITIONS_MAX, last=True)] = ()
    """Ready; SuspensionWarning: it will be suspended soon, and why; Suspended; Quarantined."""
    observed_generation: int = Field(default=0, ge=0)
