"""Pure: what to do about one job now, from its document, its pods and the time. The loop asks; `apply` carries it out.

`next_step` looks at the phase and at what was observed, names the event of the core's transition table that this
amounts to, and returns the new status with the effects that go with it. Nothing is remembered between two calls, so a
new leader comes to the same step from the same documents. Jobs that hold GPUs are in `holding`, those that leave in
`leaving`.
"""

from __future__ import annotations

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.admitted import holding
from cotenant.controller.lifecycle.observation import Note, Situation, Step
from cotenant.controller.lifecycle.termination import evicting
from cotenant.controller.lifecycle.words import asks
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import HOLDING, TERMINAL, LifecycleEvent, Phase


def next_step(s: Situation, settings: Settings) -> Step:
    if s.deleting:  # its end is decided: nothing more is written, and nothing is made that would hold it up
        return Step(delete=s.held)
    if s.phase in TERMINAL:
        return _finished(s)
    if s.phase is Phase.EVICTING:
        return evicting(s)
    if s.phase in HOLDING:
        return holding(s, settings)
    return _waiting(s)


def _waiting(s: Situation) -> Step:
    """Pending, suspended or invalid: it holds nothing, so nothing of it may run."""
    status = s.status.model_copy(update={"observed_generation": s.generation})
    if s.spec is None:
        if s.phase is Phase.INVALID and s.status.message == s.problem:
            return Step(delete=s.held)
        event = LifecycleEvent.REFUSED if s.phase is not Phase.INVALID else None
        changed = _refused(status, event, s.problem, s.now)
        return Step(status=changed, delete=s.held, note=Note(reason="Invalid", message=s.problem, warning=True))
    if s.phase is Phase.INVALID:
        changed = status_transitions.moved(
            status, LifecycleEvent.ACCEPTED, reason="Accepted", message="", now=s.now, pending=None
        )
        return Step(status=changed, delete=s.held)
    if s.spec.suspend and s.phase is Phase.PENDING:
        message = "spec.suspend is true: the job waits until it is set to false"
        changed = status_transitions.moved(
            status, LifecycleEvent.SUSPENDED, reason="Suspended", message=message, now=s.now, pending=None,
            gpus=asks(s.spec),
        )  # fmt: skip
        return Step(status=changed, delete=s.held, note=Note(reason="Suspended", message=message))
    if not s.spec.suspend and s.phase is Phase.SUSPENDED:
        changed = status_transitions.moved(
            status, LifecycleEvent.RESUMED, reason="Resumed", message="the job waits again", now=s.now
        )
        return Step(status=changed, delete=s.held, note=Note(reason="Resumed", message="spec.suspend was cleared"))
    return Step(delete=s.held)


def _refused(status: TrainingJobStatus, event: LifecycleEvent | None, problem: str, now: float) -> TrainingJobStatus:
    if event is not None:
        return status_transitions.moved(status, event, reason="Invalid", message=problem, now=now, pending=None)
    return status_transitions.explained(status, reason="Invalid", message=problem, now=now)


def _finished(s: Situation) -> Step:
    ttl = s.spec.ttl_after_finished if s.spec else None
    ended = unix_seconds(s.status.finished_at)
    if ttl is None or ended is None:
        return Step(delete=s.held)
    if s.now >= ended + ttl:
        return Step(delete=s.held, delete_job=True)
    return Step(delete=s.held, look_again_at=ended + ttl)
