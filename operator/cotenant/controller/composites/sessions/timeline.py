"""When a session is suspended by itself: for idleness or for age, after a warning. Pure.

The session's status keeps the time of the last activity, in steps of a twentieth of the idle timeout. After a change of
leader, a session that only used its GPU may count as idle earlier by one such step. Activity of a kernel is exact.
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
"""The warning comes at most this part of the given time before the end."""
STEPS: Final = 20
STEP_S_MAX: Final = 60.0
RUNS: Final = frozenset({SessionPhase.STARTING, SessionPhase.RUNNING})
"""An application that never listens is suspended for idleness too."""
LOOK_S_MAX, LOOK_S_MIN = 15.0, 1.0
"""Between two looks at the GPUs."""


@dataclass(frozen=True, slots=True)
class Due:
    """One reason for which a session will be suspended. Times are Unix seconds."""

    reason: str
    warn_at: float
    at: float
    message: str
    """What will happen, and what keeps the session running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimeline:
    started_at: float
    last_activity: float
    idle: Due
    lifetime: Due

    @property
    def next(self) -> Due:
        """The reason that comes first."""
        return min(self.lifetime, self.idle, key=lambda due: due.at)

    def look_again_at(self, now: float, times: SessionTimes) -> float:
        """When the next look is due: for a warning, for the end, and often enough to see busy GPUs."""
        moments = [at for due in (self.idle, self.lifetime) for at in (due.warn_at, due.at) if at > now]
        return min([*moments, now + min(LOOK_S_MAX, max(LOOK_S_MIN, times.idle.seconds / STEPS))])


def timeline(
    session: Session, times: SessionTimes, job: TrainingJobStatus, *, gpu_busy: bool, now: float
) -> SessionTimeline:
    """Timeline of a session whose pod runs."""
    before = session.status
    started = unix_seconds(before.started_at)
    started = now if started is None else started
    known = unix_seconds(before.last_activity)
    if known is None or before.attempt != job.attempts or before.phase not in RUNS:
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
            f"its lifetime ends then ({times.lifetime.source}); "
            + ("" if times.lifetime.is_of_queue else "write a longer one at any time; ")
            + "a resumed session starts a new one",
        ),
    )


def shown_activity(session: Session, times: SessionTimes, last: float) -> float:
    """Time to write into the status: the stored one until it is a step old."""
    written = unix_seconds(session.status.last_activity)
    step = min(STEP_S_MAX, times.idle.seconds / STEPS)
    return last if written is None or not 0 <= last - written < step else written


def _due(reason: str, since: float, seconds: int, message: str) -> Due:
    return Due(reason, since + seconds - min(WARNING_S_MAX, seconds * WARNING_PART), since + seconds, message)
