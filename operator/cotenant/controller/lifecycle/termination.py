"""Pure: how a job leaves its GPUs: finished, given up, or asked to go and to wait again."""

from __future__ import annotations

from typing import Any

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import ProgressStatus, TrainingJobStatus
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome, classify
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.progress import final_progress
from cotenant.controller.lifecycle.words import exit_message
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import LifecycleEvent

GRACE_S = 30
"""The grace period of a job whose spec cannot be read any more."""
UNREACHABLE_S = 60.0
"""How long the pods of an evicted job may stay behind on a node that is not ready, beyond their grace period."""


def end_attempt(s: Observation, end: AttemptEnd, settings: Settings) -> ReconcileResult:
    """The attempt is over. Completed, to be tried again, or given up."""
    if end.outcome is AttemptOutcome.COMPLETED:
        return _complete(s, end)
    message = end.exit.message if end.message_is_complete else exit_message(end.exit)
    reason = end.exit.reason
    failures = s.status.failures + (end.outcome in {AttemptOutcome.FAILED, AttemptOutcome.NON_RETRIABLE})
    fields: dict[str, Any] = {"last_exit": end.exit, "failures": failures}
    fields |= _count_platform_fault(s) if end.outcome is AttemptOutcome.PLATFORM_FAULT else {}
    faults = fields.get("faults", s.status.faults)
    retries = s.spec.retries if s.spec else 0
    out_of_retries = end.outcome is AttemptOutcome.NON_RETRIABLE or (
        end.outcome is AttemptOutcome.FAILED and failures > retries
    )
    if out_of_retries or faults > settings.platform_retries:
        why = (
            message
            if retries == 0 or end.outcome is not AttemptOutcome.FAILED
            else f"{message}; all {retries} retries are used"
        )
        return fail(s, LifecycleEvent.GAVE_UP, reason=reason, message=why, **fields)
    event = LifecycleEvent.EVICTED if end.outcome is AttemptOutcome.EXTERNAL_DISRUPTION else LifecycleEvent.CRASHED
    return evict(s, event, kind=reason, message=f"{message}; the job will be tried again", **fields)


def _count_platform_fault(s: Observation) -> dict[str, Any]:
    """One more of the platform's in a row. A job that has saved something new since the last one is not going round
    in circles: however long it trains, and however often it is hit, it is not given up."""
    told = [pod.exit.termination for pod in s.gang.values() if pod.exit and pod.exit.termination]
    steps = [each.last_checkpoint_step for each in told]
    polled = s.progress or s.status.progress
    steps += [polled.last_checkpoint.step] if polled and polled.last_checkpoint else []
    before = s.status.saved_at_fault
    newest = max((step for step in (*steps, before) if step is not None), default=None)
    gets_on = newest is not None and (before is None or newest > before)
    return {"faults": 1 if gets_on else s.status.faults + 1, "saved_at_fault": newest}


def _complete(s: Observation, ending: AttemptEnd) -> ReconcileResult:
    told = ending.pod.exit.termination if ending.pod and ending.pod.exit else None
    results = dict(told.results) if told and told.results else None
    message = f"{counted(s.workers, 'worker')} finished"
    if told and told.step < told.of:  # right, if it stopped early on purpose
        message += f", at step {told.step} of {told.of}"
    changed = status_transitions.finished(
        s.status,
        LifecycleEvent.COMPLETED,
        reason="Completed",
        message=message,
        milli=s.held_milli,
        over_at=s.gpus_until,
        now=s.now,
        results=results,
        last_exit=ending.exit,
        progress=_final_progress(s),
    )
    return ReconcileResult(
        status=changed, delete_pods=s.stoppable, event=EventToRecord(reason="Completed", message=message)
    )


def fail(s: Observation, event: LifecycleEvent, *, reason: str, message: str, **fields: Any) -> ReconcileResult:
    changed = status_transitions.finished(
        s.status,
        event,
        reason=reason,
        message=message,
        milli=s.held_milli,
        over_at=s.gpus_until,
        now=s.now,
        progress=_final_progress(s),
        **fields,
    )
    return ReconcileResult(
        status=changed, delete_pods=s.stoppable, event=EventToRecord(reason=reason, message=message, warning=True)
    )


def evict(
    s: Observation, event: LifecycleEvent, *, kind: str, message: str, warning: bool = False, **fields: Any
) -> ReconcileResult:
    """Asked to leave. When nothing of it runs any more, it has left in the same step."""
    changed = status_transitions.evicting(s.status, event, kind=kind, message=message, now=s.now, **fields)
    note = EventToRecord(
        reason=kind,
        message=message,
        warning=warning or event in {LifecycleEvent.CRASHED, LifecycleEvent.START_TIMED_OUT},
    )
    held = s.stoppable
    if not any(pod.held for pod in s.pods):
        changed = _release(s, changed)
    return ReconcileResult(status=changed, delete_pods=held, event=note)


def reconcile_evicting(s: Observation) -> ReconcileResult:
    """Waits for the last pod to be gone; pods on a dead node are not waited for, only their GPUs stay taken."""
    held = [pod for pod in s.pods if pod.held]
    asked_at = (unix_seconds(s.status.eviction.at) if s.status.eviction else None) or s.now
    grace = s.spec.grace_period if s.spec else GRACE_S
    unreachable_at = asked_at + grace + UNREACHABLE_S
    stuck = bool(held) and all(pod.node in s.dead_nodes for pod in held)
    if held and not (stuck and s.now >= unreachable_at):
        return ReconcileResult(delete_pods=s.stoppable, requeue_at=unreachable_at if stuck else None)
    judged = classify(s.gang, s.size, s.now) if s.size else None
    if isinstance(judged, AttemptEnd) and judged.outcome is AttemptOutcome.COMPLETED and len(s.gang) == s.size:
        return _complete(s, judged)
    return ReconcileResult(
        status=_release(s, s.status), event=EventToRecord(reason="Requeued", message="the job waits again")
    )


def _release(s: Observation, status: TrainingJobStatus) -> TrainingJobStatus:
    """Free, and suspended in the same breath when that is what was asked."""
    freed = status_transitions.released(status, milli=s.held_milli, over_at=s.gpus_until, now=s.now)
    if s.spec is not None and s.spec.suspend:
        message = "spec.suspend is true: the job waits until it is set to false"
        freed = status_transitions.moved(
            freed, LifecycleEvent.SUSPENDED, reason="Suspended", message=message, now=s.now, pending=None
        )
    return freed


def _final_progress(s: Observation) -> ProgressStatus | None:
    head = s.gang.get(0)
    told = head.exit.termination if head and head.exit else None
    return final_progress(s.progress or s.status.progress, told, s.now)
