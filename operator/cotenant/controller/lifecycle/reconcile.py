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
from cotenant.controller.lifecycle.admitted import reconcile_admitted
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.termination import reconcile_evicting
from cotenant.controller.lifecycle.words import gpu_request
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import HOLDING, TERMINAL, LifecycleEvent, Phase


def reconcile(s: Observation, settings: Settings) -> ReconcileResult:
    if s.deleting:  # its end is decided: nothing more is written, and nothing is made that would hold it up
        return ReconcileResult(delete_pods=s.stoppable)
    if s.phase in TERMINAL:
        return _reconcile_finished(s)
    if s.phase is Phase.EVICTING:
        return reconcile_evicting(s)
    if s.phase in HOLDING:
        return reconcile_admitted(s, settings)
    return _reconcile_waiting(s)


def _reconcile_waiting(s: Observation) -> ReconcileResult:
    """Pending, suspended or invalid: it holds nothing, so nothing of it may run."""
    status = s.status.model_copy(update={"observed_generation": s.generation})
    if s.spec is None:
        if s.phase is Phase.INVALID and s.status.message == s.problem:
            return ReconcileResult(delete_pods=s.stoppable)
        event = LifecycleEvent.REFUSED if s.phase is not Phase.INVALID else None
        changed = _invalid(status, event, s.problem, s.now)
        return ReconcileResult(
            status=changed,
            delete_pods=s.stoppable,
            event=EventToRecord(reason="Invalid", message=s.problem, warning=True),
        )
    if s.phase is Phase.INVALID:
        changed = status_transitions.moved(
            status, LifecycleEvent.ACCEPTED, reason="Accepted", message="", now=s.now, pending=None
        )
        return ReconcileResult(status=changed, delete_pods=s.stoppable)
    if s.spec.suspend and s.phase is Phase.PENDING:
        message = "spec.suspend is true: the job waits until it is set to false"
        changed = status_transitions.moved(
            status, LifecycleEvent.SUSPENDED, reason="Suspended", message=message, now=s.now, pending=None,
            gpus=gpu_request(s.spec),
        )  # fmt: skip
        return ReconcileResult(
            status=changed, delete_pods=s.stoppable, event=EventToRecord(reason="Suspended", message=message)
        )
    if not s.spec.suspend and s.phase is Phase.SUSPENDED:
        changed = status_transitions.moved(
            status, LifecycleEvent.RESUMED, reason="Resumed", message="the job waits again", now=s.now
        )
        return ReconcileResult(
            status=changed,
            delete_pods=s.stoppable,
            event=EventToRecord(reason="Resumed", message="spec.suspend was cleared"),
        )
    return ReconcileResult(delete_pods=s.stoppable)


def _invalid(status: TrainingJobStatus, event: LifecycleEvent | None, problem: str, now: float) -> TrainingJobStatus:
    if event is not None:
        return status_transitions.moved(status, event, reason="Invalid", message=problem, now=now, pending=None)
    return status_transitions.explained(status, reason="Invalid", message=problem, now=now)


def _reconcile_finished(s: Observation) -> ReconcileResult:
    ttl = s.spec.ttl_after_finished if s.spec else None
    ended = unix_seconds(s.status.finished_at)
    if ttl is None or ended is None:
        return ReconcileResult(delete_pods=s.stoppable)
    if s.now >= ended + ttl:
        return ReconcileResult(delete_pods=s.stoppable, delete_job=True)
    return ReconcileResult(delete_pods=s.stoppable, requeue_at=ended + ttl)
