"""The next step of one session: a pure function of the session, its job, and whether its GPUs are busy.

A session runs unless its spec says `suspend`. The operator suspends it by two writes: the condition `Suspended` with
its reason, for this generation of the spec; then `suspend` in the spec, which makes a new generation. After a crash
between the two, the second is made up for. When a person resumes the session, its spec gets a new generation, which the
condition does not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from cotenant.api.conversion import conditions
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.sessions.session import Session
from cotenant.api.resources.sessions.session_status import SessionPhase, SessionStatus
from cotenant.api.resources.trainingjob_status import Condition, TrainingJobStatus
from cotenant.api.scalars.fields import moment, show_time
from cotenant.controller.client.kube import SESSIONS, TRAINING_JOBS, Document
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.composites.composite import Create, Patch, SeenJob, Writes
from cotenant.controller.composites.sessions.session_job import (
    SPEC_DIGEST,
    digest,
    job_document,
    job_name,
    job_spec,
    path_of,
    port_of,
    serves_below_path,
)
from cotenant.controller.composites.sessions.timeline import Due, SessionTimeline, shown_activity, timeline
from cotenant.controller.composites.sessions.times import SessionTimes
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.core.model.lifecycle import HOLDING, Phase

READY, WARNING, SUSPENDED = "Ready", "SuspensionWarning", "Suspended"
BY_ITSELF: Final = frozenset({"IdleTimeout", "LifetimeOver"})
"""Reasons for which the operator suspends a session."""


@dataclass(frozen=True, kw_only=True)
class SessionObserved:
    session: Session
    times: SessionTimes
    document: Document
    job: SeenJob | None
    gpu_busy: bool = False
    now: float

    @property
    def generation(self) -> int:
        return self.session.metadata.generation

    @property
    def phase(self) -> Phase:
        """Phase of the job."""
        return Phase.PENDING if self.job is None else self.job.phase

    @cached_property
    def job_status(self) -> TrainingJobStatus:
        return TrainingJobStatus() if self.job is None else self.job.status

    def condition(self, kind: str) -> Condition | None:
        return conditions.find(self.session.status.conditions, kind)

    @property
    def listens(self) -> bool:
        """True if the application accepts connections: then its pod reports activity, or that there is none."""
        progress = self.job_status.progress
        return progress is not None and progress.busy is not None

    @property
    def decided_to_suspend(self) -> str:
        """Reason for which the operator has decided to suspend this generation of the spec; empty if it has not."""
        known = self.condition(SUSPENDED)
        mine = known is not None and known.status == "True" and known.observed_generation == self.generation
        return known.reason if mine and known is not None and known.reason in BY_ITSELF else ""


def plan(o: SessionObserved) -> Writes:
    """Plan one write. The next is planned when this one has been seen."""
    if o.decided_to_suspend and not o.session.spec.suspend:
        return Writes(objects=(Patch(SESSIONS, o.document, {"spec": {"suspend": True}}),))
    if o.job is None:
        return _without_job(o)
    if o.phase in (Phase.SUCCEEDED, Phase.FAILED):
        return _ended(o)
    objects = _brought_in_line(o, o.job.document)
    if o.session.spec.suspend:
        return Writes(objects=objects, status=_status(o, *_suspended(o)))
    if o.phase is not Phase.RUNNING:
        return Writes(objects=objects, status=_status(o, *_waiting(o)))
    return _running(o, objects)


def _without_job(o: SessionObserved) -> Writes:
    if o.session.spec.suspend:
        message = f"it is suspended. To go on: kubectl cotenant session resume {_named(o)}"
        return Writes(status=_status(o, SessionPhase.SUSPENDED, "Suspended", message))
    made = Create(TRAINING_JOBS, job_document(o.session))
    return Writes(
        objects=(made,), status=_status(o, SessionPhase.PENDING, "JobCreated", "its TrainingJob has been made")
    )


def _brought_in_line(o: SessionObserved, job: Document) -> tuple[Patch, ...]:
    """Patches of the job: whether it is suspended, and, while it holds nothing, its spec from the session's."""
    patch: dict[str, Any] = {}
    if bool(job["spec"].get("suspend")) != o.session.spec.suspend:
        patch = {"spec": {"suspend": o.session.spec.suspend}}
    wanted = job_spec(o.session)
    if o.phase not in HOLDING and _digest_of(job) != digest(wanted):
        wanted["suspend"] = o.session.spec.suspend
        patch = {
            "spec": difference(job["spec"], wanted),
            "metadata": {"annotations": {SPEC_DIGEST: digest(job_spec(o.session))}},
        }
    return (Patch(TRAINING_JOBS, job, patch),) if patch else ()


def _digest_of(job: Mapping[str, Any]) -> str:
    return str((job["metadata"].get("annotations") or {}).get(SPEC_DIGEST, ""))


def _suspended(o: SessionObserved) -> tuple[SessionPhase, str, str]:
    known = o.condition(SUSPENDED)
    by_itself = known is not None and known.status == "True" and known.reason in BY_ITSELF
    reason = known.reason if by_itself and known is not None else "Suspended"
    why = {"IdleTimeout": "it was idle", "LifetimeOver": "its life was over"}.get(reason, "it was stopped")
    if o.phase in HOLDING:
        return SessionPhase.SUSPENDING, reason, f"{why}: its application is asked to end"
    kept = "its volume is kept" if o.session.spec.volume else "it had no volume, so its files are gone"
    again = f"kubectl cotenant session resume {_named(o)}"
    return SessionPhase.SUSPENDED, reason, f"{why}; {kept}. To go on: {again}"


def _waiting(o: SessionObserved) -> tuple[SessionPhase, str, str]:
    status = o.job_status
    if o.phase is Phase.INVALID:
        return SessionPhase.FAILED, status.reason or "Invalid", status.message or ""
    if o.phase is Phase.STARTING:
        return SessionPhase.STARTING, "Starting", status.message or "its pod starts"
    if o.phase is Phase.EVICTING:
        return SessionPhase.PENDING, status.reason or "Evicted", status.message or ""
    pending = status.pending
    if pending is None:
        return SessionPhase.PENDING, status.reason or "Pending", status.message or "its TrainingJob waits"
    return SessionPhase.PENDING, pending.reason, pending.message


def _ended(o: SessionObserved) -> Writes:
    """The status if the application has ended by itself. Its job stays as a record until somebody starts the session
    again.
    """
    again = (
        f"`kubectl cotenant session resume {_named(o)}`, or delete trainingjob {job_name(o.session)}, to start it again"
    )
    if o.session.spec.suspend:
        return Writes(status=_status(o, *_suspended(o)))
    if o.phase is Phase.SUCCEEDED:
        return Writes(status=_status(o, SessionPhase.ENDED, "ApplicationEnded", f"its application has ended; {again}"))
    status = o.job_status
    event = EventToRecord(reason=status.reason or "Failed", message=status.message or "it has failed", warning=True)
    message = f"{status.message}; {again}"
    written = _status(o, SessionPhase.FAILED, status.reason or "Failed", message)
    news = o.session.status.phase != SessionPhase.FAILED
    return Writes(status=written, events=(event,) if news else ())


def _running(o: SessionObserved, objects: tuple[Patch, ...]) -> Writes:
    line = timeline(o.session, o.times, o.job_status, gpu_busy=o.gpu_busy, now=o.now)
    line = replace(line, idle=_after_warning(o, line.idle), lifetime=_after_warning(o, line.lifetime))
    due, look_at = line.next, line.look_again_at(o.now, o.times)
    if o.now >= due.at:
        message = {"IdleTimeout": "it was idle", "LifetimeOver": "its life was over"}[due.reason]
        event = EventToRecord(reason=due.reason, message=f"{message}: it is suspended, and its GPUs are given back")
        status = _status(o, SessionPhase.SUSPENDING, due.reason, f"{message}: it is suspended", line=line)
        return Writes(objects=objects, status=status, events=(event,))
    phase = SessionPhase.RUNNING if o.listens else SessionPhase.STARTING
    status = _status(o, phase, phase, _how_to_open(o), line=line)
    warned = o.condition(WARNING)
    events: tuple[EventToRecord, ...] = ()
    if o.now >= due.warn_at and (warned is None or warned.status != "True" or warned.reason != due.reason):
        events = (EventToRecord(reason="SuspensionWarning", message=_warning(line), warning=True),)
    return Writes(objects=objects, status=status, events=events, look_again_at=look_at)


def _after_warning(o: SessionObserved, due: Due) -> Due:
    """When to suspend: not before the warning has stood for half of its time, since the operator may have been away
    when it was due.
    """
    if o.now < due.warn_at:
        return due
    known = o.condition(WARNING)
    warned = known is not None and known.status == "True" and known.reason == due.reason
    since = unix_seconds(known.last_transition_time) if warned and known is not None else None
    return replace(due, at=max(due.at, (o.now if since is None else since) + (due.at - due.warn_at) / 2))


def _how_to_open(o: SessionObserved) -> str:
    if not o.listens:
        return "its application starts, and does not accept connections yet"
    changed = o.job is not None and _digest_of(o.job.document) != digest(job_spec(o.session))
    note = "; what was changed in its spec holds from the next start on" if changed else ""
    return f"open it: kubectl cotenant session open {_named(o)}{note}"


def _named(o: SessionObserved) -> str:
    return f"{o.session.metadata.final_name} -n {o.session.metadata.namespace}"


def _warning(line: SessionTimeline) -> str:
    return f"it will be suspended at {show_time(moment(line.next.at))}: {line.next.message}"


def _status(
    o: SessionObserved, phase: SessionPhase, reason: str, message: str, *, line: SessionTimeline | None = None
) -> dict[str, Any]:
    """The whole status. `line` is the timeline of a session whose application runs, or starts in its pod."""
    warns = line is not None and line.next.warn_at <= o.now < line.next.at
    ready = phase is SessionPhase.RUNNING
    suspended = phase in (SessionPhase.SUSPENDING, SessionPhase.SUSPENDED)
    made = [
        _condition(o, READY, ready, reason, message),
        _condition(o, SUSPENDED, suspended, reason if suspended else "Runs", ""),
    ]
    if warns and line is not None:
        made.append(_condition(o, WARNING, True, line.next.reason, _warning(line)))
    elif o.condition(WARNING) is not None:
        made.append(_condition(o, WARNING, False, "NotDue", ""))
    before = o.session.status
    keeps_life = phase in (SessionPhase.PENDING, SessionPhase.STARTING)
    started = moment(line.started_at) if line is not None else before.started_at if keeps_life else None
    status = SessionStatus(
        phase=phase,
        reason=reason,
        message=message,
        job=job_name(o.session),
        attempt=o.job_status.attempts if line is not None else 0,
        port=port_of(o.session),
        path=path_of(o.session) if serves_below_path(o.session) else "/",
        started_at=started,
        ends_at=moment(line.lifetime.at) if line is not None else None,
        last_activity=moment(shown_activity(o.session, o.times, line.last_activity)) if line is not None else None,
        suspends_at=moment(line.next.at) if warns and line is not None else None,
        conditions=tuple(made),
        observed_generation=o.generation,
    )
    return status.to_document()


def _condition(o: SessionObserved, kind: str, holds: bool, reason: str, message: str) -> Condition:
    """Condition with the time of its last change, and the generation that it was decided for."""
    known = o.session.status.conditions
    return conditions.renewed(known, kind, str(holds), reason, message, at=o.now, generation=o.generation)
