"""Reconcile of one TrainingJob, from its document, its pods and the time. Pure.

`reconcile` looks at the phase and at what was observed, and returns the new status with the effects that go with it;
the phase comes from the core's transition table. Nothing is remembered between two calls, so that a new leader comes to
the same result from the same documents.
"""

from __future__ import annotations

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.scalars.status_text import plain_sentence
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.admitted import reconcile_admitted
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.pod_deletion import pods_to_end, with_forced_deletions
from cotenant.controller.lifecycle.termination import SUSPENDED_MESSAGE, reconcile_evicting
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import HOLDING, TERMINAL, LifecycleEvent, Phase


def reconcile(o: Observation, settings: Settings) -> ReconcileResult:
    """The next step of the job by its phase, and of pods that were asked to end, whatever its phase."""
    return with_forced_deletions(o, _reconcile_phase(o, settings), settings)


def reconcile_orphans(pods: tuple[PodRecord, ...], now: float, settings: Settings) -> ReconcileResult:
    """The next step of pods whose job is gone."""
    to_end = pods_to_end(pods, now, settings)
    asked = tuple(pod for pod in pods if not pod.deleting)
    return ReconcileResult(delete_pods=asked, forced_deletions=to_end.forced, requeue_at=to_end.next_at)


def _reconcile_phase(o: Observation, settings: Settings) -> ReconcileResult:
    # 1. A job that is being deleted: nothing more is written, and nothing is made that would hold its end up.
    if o.record.deleting:
        return ReconcileResult(delete_pods=o.stoppable)
    # 2. Succeeded or failed: nothing of it may run, and in the end the document goes.
    if o.phase in TERMINAL:
        return _reconcile_finished(o)
    # 3. Asked to leave: it holds its GPUs until its last pod is gone.
    if o.phase is Phase.EVICTING:
        return reconcile_evicting(o, settings)
    # 4. Starting or running.
    if o.phase in HOLDING:
        return reconcile_admitted(o, settings)
    # 5. Pending, suspended or invalid: it holds nothing, and waits for the scheduler or for an edit.
    return _reconcile_waiting(o)


def _reconcile_finished(o: Observation) -> ReconcileResult:
    """`spec.ttlAfterFinished`: end the pods that are left; delete the job once its time is over."""
    ttl_s = o.spec.ttl_after_finished if o.spec else None
    ended_at = unix_seconds(o.status.finished_at)
    if ttl_s is None or ended_at is None:
        return ReconcileResult(delete_pods=o.stoppable)
    if o.now >= ended_at + ttl_s:
        return ReconcileResult(delete_pods=o.stoppable, delete_job=True)
    return ReconcileResult(delete_pods=o.stoppable, requeue_at=ended_at + ttl_s)


def _reconcile_waiting(o: Observation) -> ReconcileResult:
    """The phase of a job that holds nothing follows its spec; pods of it that still run are ended."""
    status, now = o.status.model_copy(update={"observed_generation": o.record.generation}), o.now
    event: EventToRecord | None = None
    problem = plain_sentence(o.problem or "")
    if o.spec is None and o.phase is Phase.INVALID and o.status.message == problem:
        return ReconcileResult(delete_pods=o.stoppable)
    if o.spec is None:
        event = EventToRecord(reason="Invalid", message=problem, warning=True)
        if o.phase is Phase.INVALID:
            changed = status_transitions.explained(status, reason="Invalid", message=problem, now=now)
        else:
            changed = status_transitions.moved(
                status, LifecycleEvent.REFUSED, reason="Invalid", message=problem, now=now, pending=None
            )
    elif o.phase is Phase.INVALID:
        changed = status_transitions.moved(
            status, LifecycleEvent.ACCEPTED, reason="Accepted", message="", now=now, pending=None
        )
    elif o.spec.suspend and o.phase is Phase.PENDING:
        event = EventToRecord(reason="Suspended", message=SUSPENDED_MESSAGE)
        changed = status_transitions.moved(
            status, LifecycleEvent.SUSPENDED, reason="Suspended", message=SUSPENDED_MESSAGE, now=now, pending=None,
            **o.record.size_requested,
        )  # fmt: skip
    elif not o.spec.suspend and o.phase is Phase.SUSPENDED:
        event = EventToRecord(reason="Resumed", message="spec.suspend was cleared")
        changed = status_transitions.moved(
            status, LifecycleEvent.RESUMED, reason="Resumed", message="the job waits again", now=now
        )
    else:
        return ReconcileResult(delete_pods=o.stoppable)
    return ReconcileResult(status=changed, delete_pods=o.stoppable, event=event)
