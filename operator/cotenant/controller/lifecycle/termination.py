"""Termination of an attempt: the job gives its GPUs back, for good or to wait in its queue again. Pure.

Pods that were asked to end and are still there are shown in the condition `TerminationOverdue`, in every phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from cotenant import names
from cotenant.api.conversion.conditions import find_true
from cotenant.api.conversion.to_core import admitted_at, unix_seconds
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.scalars.status_text import plain_sentence
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome, exit_status
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.pod_deletion import (
    CONFIRM_S,
    KILL_GRACE_S,
    effective_grace_s,
    named,
    overdue_at,
    pods_to_end,
)
from cotenant.controller.lifecycle.progress import final_progress
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import LifecycleEvent

GRACE_S = 30
"""Grace period of a job whose spec can no longer be read."""
UNREACHABLE_S = 60.0
"""Extra time after the grace period for pods of an evicted job on a node that is not ready."""
SUSPENDED_MESSAGE = "spec.suspend is true: the job waits until it is set to false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The job has succeeded or failed, for good."""

    event: LifecycleEvent
    reason: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the status that change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """The job gives its GPUs back and waits again."""

    event: LifecycleEvent
    kind: str
    message: str
    warning: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the status that change."""


Ending: TypeAlias = Finish | Eviction


def terminate(o: Observation, ending: Ending) -> ReconcileResult:
    """End the pods and write why. If no pod of the job runs any more, the same write releases the GPUs."""
    reason = ending.reason if isinstance(ending, Finish) else ending.kind
    stop = o.stoppable
    if isinstance(ending, Finish):
        warning = ending.event is not LifecycleEvent.COMPLETED
        state = "failed" if warning else "done"
        fields = dict(ending.fields)
        if not warning and o.evaluator is not None and o.now < evaluator_until(o, o.now):
            stop = tuple(pod for pod in stop if pod.is_of_gang)
            fields["evaluator"] = o.status.evaluator
        changed = status_transitions.finished(
            _with_last_progress(o, o.status, state),
            ending.event,
            reason=reason,
            message=ending.message,
            milli=o.of_placement.held_milli,
            gpu_class=o.of_placement.gpu_class,
            over_at=o.gpus_until,
            now=o.now,
            **fields,
        )
    else:
        warning = ending.warning or ending.event in {LifecycleEvent.CRASHED, LifecycleEvent.START_TIMED_OUT}
        state = "failed" if "last_exit" in ending.fields else "stopping"
        changed = status_transitions.evicting(
            _with_last_progress(o, o.status, state),
            ending.event,
            kind=reason,
            message=ending.message,
            now=o.now,
            **ending.fields,
        )
        if not (o.holders or o.outliving):
            changed = _released(o, changed)
    event = EventToRecord(reason=reason, message=ending.message, warning=warning)
    return ReconcileResult(status=changed, delete_pods=stop, event=event)


def evaluator_until(o: Observation, succeeded_at: float) -> float:
    """Unix time until which the evaluator of a job that succeeded at `succeeded_at` may go on."""
    evaluator = o.spec.evaluator if o.spec else None
    return succeeded_at + ((evaluator.finish_within or 0) if evaluator else 0)


def reconcile_evicting(o: Observation, settings: Settings) -> ReconcileResult:
    """Wait until the last pod of the gang is gone, also those whose objects were deleted by force. Pods that their node
    does not end are not waited for; their GPUs stay taken.
    """
    outliving = o.outliving
    held = (*o.holders, *outliving)
    asked_at = (unix_seconds(o.status.eviction.at) if o.status.eviction else None) or o.now
    grace_s = effective_grace_s(o.spec.grace_period if o.spec else GRACE_S, settings)
    unreachable_at = asked_at + grace_s + UNREACHABLE_S
    silent = [pod for pod in held if pod.node in o.unreachable_nodes or pod in outliving]
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
    resumed = o.status.eviction is not None and o.status.eviction.kind == "Suspended" and suspend_reason_is_over(o)
    return ReconcileResult(status=_released(o, o.status), event=event, clear_suspend_reason=resumed)


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
    """Release the GPUs. If the spec says `suspend`, the same write suspends the job."""
    failed = status.progress is not None and status.progress.state == "failed"
    told = _with_departure(o, _with_last_progress(o, status, "failed" if failed else "stopped"))
    held = o.of_placement
    freed = status_transitions.released(
        told, milli=held.held_milli, gpu_class=held.gpu_class, over_at=o.gpus_until, now=o.now
    )
    freed = freed.model_copy(update=o.record.size_requested)
    if o.spec is None or not o.spec.suspend:
        return freed
    message = suspended_message(o, freed)
    return status_transitions.moved(
        freed, LifecycleEvent.SUSPENDED, reason="Suspended", message=message, now=o.now, pending=None
    )


def suspend_reason_is_over(o: Observation) -> bool:
    """True if the job is resumed and its annotation still names the reason of its suspension."""
    wanted = o.spec is not None and not o.spec.suspend
    return wanted and o.record.job is not None and names.ANNOTATION_SUSPEND_REASON in o.record.job.metadata.annotations


def suspended_message(o: Observation, status: TrainingJobStatus) -> str:
    """What resumes a suspended job, which checkpoint is kept, and the reason if one was given."""
    saved = status.progress.last_checkpoint.step if status.progress and status.progress.last_checkpoint else None
    said = o.record.job.metadata.annotations.get(names.ANNOTATION_SUSPEND_REASON) if o.record.job else None
    kept = "" if saved is None else f"; its checkpoint of step {saved} is kept"
    return plain_sentence(SUSPENDED_MESSAGE + kept + (f"; the reason given: {said}" if said else ""))


def _with_last_progress(o: Observation, status: TrainingJobStatus, state: str) -> TrainingJobStatus:
    """The status with everything that the pods of the attempt left behind."""
    terminations = [pod.exit.termination for pod in o.ended.values() if pod.exit and pod.exit.termination]
    known = o.progress or status.progress
    return status_transitions.with_progress(status, final_progress(known, terminations, state=state, now=o.now))


def _with_departure(o: Observation, status: TrainingJobStatus) -> TrainingJobStatus:
    """`lastExit` of an attempt that was asked to leave, from the exits of its pods."""
    began = admitted_at(status)
    last = unix_seconds(status.last_exit.at) if status.last_exit else None
    if not o.ended or (status.last_exit and (last is None or began is None or last >= began)):
        return status
    exits = [exit_status(pod, o.ended) for pod in o.ended.values()]
    # Each pod tells of its own ranks: what is the same for all of them is said once.
    clauses = dict.fromkeys(clause for one in exits for clause in one.message.split("; "))
    left = exits[0].model_copy(update={"message": "; ".join(clauses)})
    return status.model_copy(update=status_transitions.exit_fields(status, left))


def with_forced_deletions(o: Observation, result: ReconcileResult, settings: Settings) -> ReconcileResult:
    """The job's step, with whatever its terminating pods need."""
    to_end = pods_to_end(o.pods, o.now, settings)
    status = _with_overdue_condition(o, result.status, to_end.overdue)
    times = [result.requeue_at, to_end.next_at, unconfirmed_at(o)]
    due = [at for at in times if at is not None and (at > o.now or at == result.requeue_at)]
    return replace(result, status=status, forced_deletions=to_end.forced, requeue_at=min(due, default=None))


def unconfirmed_at(o: Observation) -> float | None:
    """Unix time after which the job no longer waits for overdue pods; None if no pod is overdue."""
    found = find_true(o.status.conditions, status_transitions.OVERDUE)
    return None if found is None else found.last_transition_time.timestamp() + CONFIRM_S


def is_unconfirmed(o: Observation, pod: PodRecord) -> bool:
    """True if the node had its time to end the pod, and has not reported that it did."""
    at, deletion = unconfirmed_at(o), pod.deletion
    if at is None or deletion is None or not pod.held:
        return False
    return deletion.grace_s <= KILL_GRACE_S and o.now >= max(at, overdue_at(deletion))


def _with_overdue_condition(
    o: Observation, changed: TrainingJobStatus | None, overdue: tuple[PodRecord, ...]
) -> TrainingJobStatus | None:
    """The status with the condition `TerminationOverdue` up to date; None if there is nothing to write."""
    if o.record.deleting:
        return changed
    if bool(overdue) == (find_true(o.status.conditions, status_transitions.OVERDUE) is not None):
        return changed
    message = (
        f"{named(overdue)} should have ended, and has not; its GPUs stay taken until its node reports that it has"
        if overdue
        else "all pods that were asked to end have ended"
    )
    kind, reason = status_transitions.OVERDUE, _overdue_reason(o, overdue)
    return status_transitions.told(changed or o.status, kind, bool(overdue), reason, message, at=o.now)


def _overdue_reason(o: Observation, overdue: tuple[PodRecord, ...]) -> str:
    if not overdue:
        return "PodsEnded"
    return "NodeNotReady" if all(pod.node in o.unreachable_nodes for pod in overdue) else "PodsDoNotEnd"
