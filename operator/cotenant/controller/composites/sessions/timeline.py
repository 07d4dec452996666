"""When a session is suspended by itself: by idleness or by age, with a warning before. Pure.

Time of the last activity is kept in the session's status, in steps of a twentieth of the time that it may be idle:
after a change of leader a session that used its GPU alone may be taken for idle sooner by one such step. What a kernel
did is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.sessions.session import Session
from cotenant.api.resources.sessions.session_status import SessionPhase
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.composites.sessions.times import SessionTimes

WARNING_S_MAX: Final = 600.0
WARNING_PART: Final = 0.25
"""Of the time that is given, where that is less."""
STEPS: Final = 20
STEP_S_MAX: Final = 60.0
LOOK_S_MAX, LOOK_S_MIN = 15.0, 1.0
"""Between two looks at the GPUs."""


@dataclass(frozen=True, slots=True)
class Due:
    """One reason for which a session will be suspended. Times in Unix seconds."""

    reason: str
    warn_at: float
    at: float
    message: str
    """What is the matter, and what keeps it going."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimeline:
    started_at: float
    last_activity: float
    idle: Due
    lifetime: Due

    @property
    def next(self) -> Due:
        """Whichever comes first."""
        return min(self.lifetime, self.idle, key=lambda due: due.at)

    def look_again_at(self, now: float, times: SessionTimes) -> float:
        """When the next look is due: at a warning, at the end, and often enough to see GPUs at work."""
        moments = [at for due in (self.idle, self.lifetime) for at in (due.warn_at, due.at) if at > now]
        return min([*moments, now + min(LOOK_S_MAX, max(LOOK_S_MIN, times.idle.seconds / STEPS))])


def timeline(
    session: Session, times: SessionTimes, job: TrainingJobStatus, *, gpu_busy: bool, now: float
) -> SessionTimeline:
    """Timeline of a session whose application runs."""
    before = session.status
    started = unix_seconds(before.started_at)
    started = now if started is None else started
    known = unix_seconds(before.last_activity)
    if known is None or before.attempt != job.attempts or before.phase != SessionPhase.RUNNING:
        known = now  # it has just begun to run, or a person has just resumed it
    progress = job.progress
    used = [known]
    if gpu_busy or (progress is not None and progress.busy):
        used.append(now)
    if progress is not None and (at := unix_seconds(progress.last_activity)) is not None:
        used.append(min(at, now))
    last = max(used)
    return SessionTimeline(
        started_at=started,
        last_activity=last,
        idle=_due(
            "IdleTimeout",
            last,
            times.idle.seconds,
            f"no kernel has run and no GPU was busy for a while ({times.idle.source}); run something to keep it",
        ),
        lifetime=_due(
            "LifetimeOver",
            started,
            times.lifetime.seconds,
            f"its life is over by then ({times.lifetime.source}); "
            + ("" if times.lifetime.is_of_queue else "a longer one may be written at any time, and ")
            + "a session that is resumed begins a new one",
        ),
    )


def shown_activity(session: Session, times: SessionTimes, last: float) -> float:
    """Time to write: the one that is written already, until it is a step old."""
    written = unix_seconds(session.status.last_activity)
    step = min(STEP_S_MAX, times.idle.seconds / STEPS)
    return last if written is None or not 0 <= last - written < step else written


def _due(reason: str, since: float, seconds: int, message: str) -> Due:
    return Due(reason, since + seconds - min(WARNING_S_MAX, seconds * WARNING_PART), since + seconds, message)
