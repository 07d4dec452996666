"""The state machine of a TrainingJob: one table, (phase, event) → phase. Terminal phases are computed from it.

The controller names the event that it saw and asks `step`; nobody assigns a phase by hand. An event that means
nothing in a phase (a late or repeated watch event) gives None, and the job stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    PENDING = "Pending"
    """Waits for a place in the queue. Holds nothing."""
    STARTING = "Starting"
    """Admitted: the placement is committed, the pods are on their way."""
    RUNNING = "Running"
    EVICTING = "Evicting"
    """Asked to leave, or failed and to be tried again; still holds its placement until the pods are gone."""
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID = "Invalid"
    """Cannot be understood as written. An edit brings it back."""


class Event(StrEnum):
    ADMITTED = "Admitted"
    """The placement was committed."""
    WORKERS_READY = "WorkersReady"
    """Every pod of the gang is ready."""
    RESIZED = "Resized"
    """A new placement was committed for an elastic job."""
    COMPLETED = "Completed"
    """Rank 0 ended with 0."""
    CRASHED = "Crashed"
    """A worker failed, and the job will be tried again."""
    GAVE_UP = "GaveUp"
    """A worker failed, and there is no retry left."""
    START_TIMED_OUT = "StartTimedOut"
    """The gang was not running in time."""
    DEADLINE = "Deadline"
    """`maxRuntime` is over."""
    EVICTED = "Evicted"
    """Preempted, reclaimed, moved, over its GPU memory, or its node is lost."""
    SUSPENDED = "Suspended"
    """`spec.suspend` was set."""
    RESUMED = "Resumed"
    """`spec.suspend` was cleared."""
    RELEASED = "Released"
    """The last pod is gone: the placement is free."""
    REFUSED = "Refused"
    """The document does not say something that can be run."""
    ACCEPTED = "Accepted"
    """An edit made a refused document good."""


TRANSITIONS: Final[Mapping[tuple[Phase, Event], Phase]] = {
    (Phase.PENDING, Event.ADMITTED): Phase.STARTING,
    (Phase.PENDING, Event.SUSPENDED): Phase.SUSPENDED,
    (Phase.PENDING, Event.REFUSED): Phase.INVALID,
    (Phase.STARTING, Event.WORKERS_READY): Phase.RUNNING,
    (Phase.STARTING, Event.COMPLETED): Phase.SUCCEEDED,
    (Phase.STARTING, Event.CRASHED): Phase.EVICTING,
    (Phase.STARTING, Event.GAVE_UP): Phase.FAILED,
    (Phase.STARTING, Event.START_TIMED_OUT): Phase.EVICTING,
    (Phase.STARTING, Event.DEADLINE): Phase.FAILED,
    (Phase.STARTING, Event.EVICTED): Phase.EVICTING,
    (Phase.STARTING, Event.SUSPENDED): Phase.EVICTING,
    (Phase.STARTING, Event.RESIZED): Phase.STARTING,
    (Phase.RUNNING, Event.RESIZED): Phase.STARTING,
    (Phase.RUNNING, Event.COMPLETED): Phase.SUCCEEDED,
    (Phase.RUNNING, Event.CRASHED): Phase.EVICTING,
    (Phase.RUNNING, Event.GAVE_UP): Phase.FAILED,
    (Phase.RUNNING, Event.DEADLINE): Phase.FAILED,
    (Phase.RUNNING, Event.EVICTED): Phase.EVICTING,
    (Phase.RUNNING, Event.SUSPENDED): Phase.EVICTING,
    (Phase.EVICTING, Event.RELEASED): Phase.PENDING,
    (Phase.EVICTING, Event.COMPLETED): Phase.SUCCEEDED,
    (Phase.EVICTING, Event.GAVE_UP): Phase.FAILED,
    (Phase.EVICTING, Event.DEADLINE): Phase.FAILED,
    (Phase.SUSPENDED, Event.RESUMED): Phase.PENDING,
    (Phase.SUSPENDED, Event.REFUSED): Phase.INVALID,
    (Phase.INVALID, Event.ACCEPTED): Phase.PENDING,
    (Phase.INVALID, Event.SUSPENDED): Phase.SUSPENDED,
}

TERMINAL: Final[frozenset[Phase]] = frozenset(Phase) - {phase for phase, _ in TRANSITIONS}
"""Phases that nothing leads out of: Succeeded and Failed."""

HOLDING: Final[frozenset[Phase]] = frozenset({Phase.STARTING, Phase.RUNNING, Phase.EVICTING})
"""Phases in which the job holds its placement."""


def step(phase: Phase, event: Event) -> Phase | None:
    """The phase after the event, or None when the event means nothing in this phase."""
    return TRANSITIONS.get((phase, event))
