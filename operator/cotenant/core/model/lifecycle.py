"""The state machine of a TrainingJob: one table, (phase, event) → phase. Terminal phases are computed from it.

`next_phase` is the only way from one phase to another. An event that means
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


class LifecycleEvent(StrEnum):
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
    STOPPED = "Stopped"
    """Ended for good by what it was made for."""
    EVICTED = "Evicted"
    """Preempted, reclaimed, moved, over its GPU memory, or its node is lost."""
    SUSPENDED = "Suspended"
    """`spec.suspend` was set."""
    RESUMED = "Resumed"
    """`spec.suspend` was cleared."""
    RELEASED = "Released"
    """The last pod is gone: the placement is free."""
    REFUSED = "Refused"
    """The document is not valid."""
    ACCEPTED = "Accepted"
    """An edit made an invalid document valid."""


TRANSITIONS: Final[Mapping[tuple[Phase, LifecycleEvent], Phase]] = {
    (Phase.PENDING, LifecycleEvent.ADMITTED): Phase.STARTING,
    (Phase.PENDING, LifecycleEvent.SUSPENDED): Phase.SUSPENDED,
    (Phase.PENDING, LifecycleEvent.REFUSED): Phase.INVALID,
    (Phase.PENDING, LifecycleEvent.STOPPED): Phase.FAILED,
    (Phase.STARTING, LifecycleEvent.WORKERS_READY): Phase.RUNNING,
    (Phase.STARTING, LifecycleEvent.COMPLETED): Phase.SUCCEEDED,
    (Phase.STARTING, LifecycleEvent.CRASHED): Phase.EVICTING,
    (Phase.STARTING, LifecycleEvent.GAVE_UP): Phase.FAILED,
    (Phase.STARTING, LifecycleEvent.START_TIMED_OUT): Phase.EVICTING,
    (Phase.STARTING, LifecycleEvent.DEADLINE): Phase.FAILED,
    (Phase.STARTING, LifecycleEvent.STOPPED): Phase.FAILED,
    (Phase.STARTING, LifecycleEvent.EVICTED): Phase.EVICTING,
    (Phase.STARTING, LifecycleEvent.SUSPENDED): Phase.EVICTING,
    (Phase.STARTING, LifecycleEvent.RESIZED): Phase.STARTING,
    (Phase.RUNNING, LifecycleEvent.RESIZED): Phase.STARTING,
    (Phase.RUNNING, LifecycleEvent.COMPLETED): Phase.SUCCEEDED,
    (Phase.RUNNING, LifecycleEvent.CRASHED): Phase.EVICTING,
    (Phase.RUNNING, LifecycleEvent.GAVE_UP): Phase.FAILED,
    (Phase.RUNNING, LifecycleEvent.DEADLINE): Phase.FAILED,
    (Phase.RUNNING, LifecycleEvent.STOPPED): Phase.FAILED,
    (Phase.RUNNING, LifecycleEvent.EVICTED): Phase.EVICTING,
    (Phase.RUNNING, LifecycleEvent.SUSPENDED): Phase.EVICTING,
    (Phase.EVICTING, LifecycleEvent.RELEASED): Phase.PENDING,
    (Phase.EVICTING, LifecycleEvent.COMPLETED): Phase.SUCCEEDED,
    (Phase.EVICTING, LifecycleEvent.GAVE_UP): Phase.FAILED,
    (Phase.EVICTING, LifecycleEvent.DEADLINE): Phase.FAILED,
    (Phase.SUSPENDED, LifecycleEvent.RESUMED): Phase.PENDING,
    (Phase.SUSPENDED, LifecycleEvent.REFUSED): Phase.INVALID,
    (Phase.SUSPENDED, LifecycleEvent.STOPPED): Phase.FAILED,
    (Phase.INVALID, LifecycleEvent.ACCEPTED): Phase.PENDING,
    (Phase.INVALID, LifecycleEvent.SUSPENDED): Phase.SUSPENDED,
    (Phase.INVALID, LifecycleEvent.STOPPED): Phase.FAILED,
}

TERMINAL: Final[frozenset[Phase]] = frozenset(Phase) - {phase for phase, _ in TRANSITIONS}
"""Phases that nothing leads out of: Succeeded and Failed."""

HOLDING: Final[frozenset[Phase]] = frozenset({Phase.STARTING, Phase.RUNNING, Phase.EVICTING})
"""Phases in which the job holds its placement."""


def next_phase(phase: Phase, event: LifecycleEvent) -> Phase | None:
    """The phase after the event, or None when the event means nothing in this phase."""
    return TRANSITIONS.get((phase, event))
