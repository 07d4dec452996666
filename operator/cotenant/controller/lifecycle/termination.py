"""Termination of an attempt: the job gives its GPUs back for good, or to wait in its queue again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.pod_deletion import effective_grace_s, is_unconfirmed, named
from cotenant.controller.lifecycle.progress import final_progress
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import LifecycleEvent

GRACE_S = 30
"""The grace period of a job whose spec cannot be read any more."""
UNREACHABLE_S = 60.0
"""Time for which pods of an evicted job may stay on a node that is not ready, beyond their grace period."""
SUSPENDED_MESSAGE = "spec.suspend is true: the job waits until it is set to false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The job has succeeded or failed, for good."""

    event: LifecycleEvent
    reason: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the status that change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """The job leaves its GPUs and waits again."""

    event: LifecycleEvent
    kind: str
    message: str
    warning: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the status that change."""


Ending: TypeAlias = Finish | Eviction


def terminate(o: Observation, ending: Ending) -> ReconcileResult:
    """End the pods, and write why. A job of which nothing runs any more is released by the same write."""
    reason = ending.reason if isinstance(ending, Finish) else ending.kind
    if isinstance(ending, Finish):
        warning = ending.event is not LifecycleEvent.COMPLETED
        head = o.gang.get(0)
        termination = head.exit.termination if head and head.exit else None
        changed = status_transitions.finished(
            o.status,
            ending.event,
            reason=reason,
            message=ending.message,
            milli=o.of_placement.held_milli,
            over_at=o.gpus_until,
            now=o.now,
            progress=final_progress(o.progress or o.status.progress, termination, o.now),
            **ending.fields,
        )
    else:
        warning = ending.warning or ending.event in {LifecycleEvent.CRASHED, LifecycleEvent.START_TIMED_OUT}
        changed = status_transitions.evicting(
            o.status, ending.event, kind=reason, message=ending.message, now=o.now, **ending.fields
        )
        if not any(pod.held for pod in o.pods):
            changed = _released(o, changed)
    event = EventToRecord(reason=reason, message=ending.message, warning=warning)
    return ReconcileResult(status=changed, delete_pods=o.stoppable, event=event)


def reconcile_evicting(o: Observation, settings: Settings) -> ReconcileResult:
    """Wait for the last pod to be gone; pods that their node does not end are not waited for, only their GPUs stay
    taken.
    """
    held = [pod for pod in o.pods if pod.held]
    asked_at = (unix_seconds(o.status.eviction.at) if o.status.eviction else None) or o.now
    grace_s = effective_grace_s(o.spec.grace_period if o.spec else GRACE_S, settings)
    unreachable_at = asked_at + grace_s + UNREACHABLE_S
    silent = [pod for pod in held if pod.node in o.unreachable_nodes]
    given_up = [pod for pod in held if is_unconfirmed(o, pod) or (pod in silent and o.now >= unreachable_at)]
    if len(given_up) < len(held):
        waits_for_node = bool(silent) and o.now < unreachable_at
        return ReconcileResult(delete_pods=o.stoppable, requeue_at=unreachable_at if waits_for_node else None)
    end = o.end
    if isinstance(end, AttemptEnd) and end.outcome is AttemptOutcome.COMPLETED and len(o.gang) == o.size:
        return terminate(o, completion(o, end))
    message = "the job waits again"
    if given_up:
        message += f"; {named(given_up)} may still run: its GPUs stay taken until its node reports that it has ended"
    event = EventToRecord(reason="Requeued", message=message, warning=bool(given_up))
    return ReconcileResult(status=_released(o, o.status), event=event)


def completion(o: Observation, end: AttemptEnd) -> Finish:
    termination = end.pod.exit.termination if end.pod and end.pod.exit else None
    results = dict(termination.results) if termination and termination.results else None
    message = f"{counted(o.workers, 'worker')} finished"
    if termination and termination.step < termination.of:  # right, if it stopped early on purpose
        message += f", at step {termination.step} of {termination.of}"
    if termination and termination.warnings:
        message += f"; status.progress.warnings has {counted(len(termination.warnings), 'warning')} about its results"
    fields = {"results": results, "last_exit": end.exit}
    return Finish(event=LifecycleEvent.COMPLETED, reason="Completed", message=message, fields=fields)


def _released(o: Observation, status: TrainingJobStatus) -> TrainingJobStatus:
    """Free, and suspended by the same write where the spec has `suspend`."""
    freed = status_transitions.released(status, milli=o.of_placement.held_milli, over_at=o.gpus_until, now=o.now)
    if o.spec is None or not o.spec.suspend:
        return freed
    return status_transitions.moved(
        freed, LifecycleEvent.SUSPENDED, reason="Suspended", message=SUSPENDED_MESSAGE, now=o.now, pending=None
    )
