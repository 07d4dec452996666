"""The status of a TrainingJob after a transition. Pure.

Phases follow the core's transition table, and conditions follow the phase. One call is one transition and becomes one
write. The transition that ends an attempt charges it (`attempt_usage`).
"""

from __future__ import annotations

from typing import Any, Final

from cotenant.api.conversion.conditions import find_true, renewed, replaced
from cotenant.api.resources.trainingjob_status import (
    EARLIER_EXITS_MAX,
    LOW_USE,
    Condition,
    EarlierExit,
    EvaluatorStatus,
    EvictionStatus,
    ExitStatus,
    PendingStatus,
    ProgressStatus,
    TrainingJobStatus,
    UsageStatus,
)
from cotenant.api.scalars.fields import moment
from cotenant.api.scalars.status_text import plain_sentence, plain_word
from cotenant.controller.informers import quarantine
from cotenant.controller.lifecycle.attempt_usage import Loss, charged, loss_of_eviction, ran_for
from cotenant.core.model.lifecycle import HOLDING, LifecycleEvent, Phase, next_phase

OVERDUE: Final = "TerminationOverdue"
"""Condition: pods that were asked to end are still there after their time. It does not follow from the phase."""


START_BLOCKED: Final = "StartBlocked"
"""Condition: the last attempt never ran, for this reason. It stays until an attempt runs."""
CLASS_MISSING: Final = "PriorityClassMissing"
"""Condition: a job holds GPUs and its PriorityClass was deleted."""
QUEUE_MISSING: Final = "QueueMissing"
"""Condition: a job holds GPUs and its Queue was deleted."""
CLUSTER_LOST: Final = "ClusterLost"
"""Condition: nothing is heard from the other cluster that the job is on."""
SPILLOVER: Final = "Spillover"
"""Condition: whether the job may be handed to the other cluster that its queue names; False with the reason."""
KEPT: Final = frozenset(
    {OVERDUE, LOW_USE, START_BLOCKED, CLASS_MISSING, QUEUE_MISSING, CLUSTER_LOST, SPILLOVER, quarantine.CONDITION}
)
"""Conditions that do not follow from the phase."""


EVALUATOR_OVER: Final = frozenset({"Ended", "Stopped"})
"""States of an evaluator that do not change any more in this attempt."""


class UnexpectedEventError(RuntimeError):
    """The transition table does not contain this transition. That is a defect of the operator."""


def moved(
    status: TrainingJobStatus, event: LifecycleEvent, *, reason: str, message: str, now: float, **fields: Any
) -> TrainingJobStatus:
    """The status after one transition. `fields` are further fields that change with it."""
    phase = next_phase(Phase(status.phase or Phase.PENDING), event)
    if phase is None:
        raise UnexpectedEventError(f"{event} in phase {status.phase}")
    said = {"reason": plain_word(reason), "message": plain_sentence(message)}
    if isinstance(last := fields.get("last_exit"), ExitStatus):
        fields |= exit_fields(status, last)
    return altered(status, now, phase=phase, **said, **fields)


def exit_fields(status: TrainingJobStatus, last: ExitStatus) -> dict[str, Any]:
    """Fields of a status when its attempt ends. The last exit of the attempt before is kept in short form."""
    plain = {"reason": plain_word(last.reason), "message": plain_sentence(last.message), "attempt": status.attempts}
    before, earlier = status.last_exit, status.earlier_exits
    if before is not None and before.attempt != status.attempts:
        earlier = (*earlier, _earlier(before))[-EARLIER_EXITS_MAX:]
    return {"last_exit": last.model_copy(update=plain), "earlier_exits": earlier}


def _earlier(last: ExitStatus) -> EarlierExit:
    return EarlierExit.model_validate(last.model_dump(include=set(EarlierExit.model_fields)))


def explained(status: TrainingJobStatus, *, reason: str, message: str, now: float) -> TrainingJobStatus:
    """The status in the same phase with another reason."""
    return altered(status, now, reason=plain_word(reason), message=plain_sentence(message))


def altered(status: TrainingJobStatus, now: float, **fields: Any) -> TrainingJobStatus:
    """The status with these fields, and with the conditions that follow from them."""
    changed = status.model_copy(update=fields)
    return changed.model_copy(update={"conditions": conditions(changed, now)})


def conditions(status: TrainingJobStatus, now: float) -> tuple[Condition, ...]:
    """Conditions that follow from the phase, and those that are kept beside them, each with the time of its last
    change.
    """
    phase = Phase(status.phase or Phase.PENDING)
    truths = {"Admitted": phase in HOLDING, "Running": phase is Phase.RUNNING}
    before = {condition.type: condition for condition in status.conditions}
    once_true = {
        "Complete": phase is Phase.SUCCEEDED,
        "Failed": phase is Phase.FAILED,
        "Suspended": phase is Phase.SUSPENDED,
        "Invalid": phase is Phase.INVALID,
    }
    truths |= {kind: true for kind, true in once_true.items() if true or kind in before}
    made = []
    for kind, true in truths.items():
        old = before.get(kind)
        reason, message = status.reason or phase.value, status.message or ""
        if old is not None and kind == "Admitted" and true and old.status == "True":
            reason, message = old.reason, old.message
        known, generation = status.conditions, status.observed_generation
        made.append(renewed(known, kind, str(true), reason, message, at=now, generation=generation))
    return (*made, *(one for one in status.conditions if one.type in KEPT))


def told(
    status: TrainingJobStatus,
    kind: str,
    holds: bool,
    reason: str,
    message: str,
    *,
    at: float,
    generation: int | None = None,
) -> TrainingJobStatus:
    """The status with this condition as of `at`. By default it is about the generation that was observed."""
    of = status.observed_generation if generation is None else generation
    condition = renewed(status.conditions, kind, str(holds), reason, message, at=at, generation=of)
    return status.model_copy(update={"conditions": replaced(status.conditions, condition)})


def unblocked(status: TrainingJobStatus, now: float) -> TrainingJobStatus:
    """The status of a job that runs: the condition `StartBlocked` becomes false."""
    free = status.model_copy(update={"blocked_start": None})
    if find_true(status.conditions, START_BLOCKED) is None:
        return free
    return told(free, START_BLOCKED, False, "Running", "an attempt runs", at=now)


def evaluator_stopped(status: TrainingJobStatus) -> EvaluatorStatus | None:
    """State of the evaluator when its attempt is over. What is known of its last failure is kept."""
    known = status.evaluator
    if known is None or known.state in EVALUATOR_OVER:
        return known
    return known.model_copy(update={"state": "Stopped", "retry_at": None})


def evicting(
    status: TrainingJobStatus,
    event: LifecycleEvent,
    *,
    kind: str,
    message: str,
    now: float,
    in_favour_of: str | None = None,
    **fields: Any,
) -> TrainingJobStatus:
    eviction = EvictionStatus(kind=plain_word(kind), message=plain_sentence(message), in_favour_of=in_favour_of, at=now)
    before = status.usage or UsageStatus()
    ran = before.model_copy(update={"run_seconds": before.run_seconds + int(ran_for(status, now))})
    over = fields | {"evaluator": evaluator_stopped(status)}
    return moved(status, event, reason=kind, message=message, now=now, eviction=eviction, usage=ran, **over)


def released(
    status: TrainingJobStatus, *, milli: int, over_at: float, now: float, gpu_class: str = ""
) -> TrainingJobStatus:
    """Release the GPUs after the last pod is gone. The job waits again with its old age."""
    eviction = status.eviction.model_copy(update={"done": True}) if status.eviction else None
    reason = status.reason or "Evicted"
    message = status.message or "the job gave its GPUs back and waits again"
    return moved(
        status,
        LifecycleEvent.RELEASED,
        reason=reason,
        message=message,
        now=now,
        placement=None,
        isolation=None,
        isolation_levels=None,
        eviction=eviction,
        pending=PendingStatus(reason=reason, message=message, since=now),
        usage=charged(status, over_at, milli=milli, gpu_class=gpu_class, loss=loss_of_eviction(status)),
    )


def finished(
    status: TrainingJobStatus,
    event: LifecycleEvent,
    *,
    reason: str,
    message: str,
    milli: int,
    over_at: float,
    now: float,
    gpu_class: str = "",
    **fields: Any,
) -> TrainingJobStatus:
    """The job is over. `fields` may have an evaluator that goes on."""
    loss = Loss.FAULT if event is LifecycleEvent.GAVE_UP else Loss.NONE
    # A short program may have succeeded before it was ever seen to run.
    before = unblocked(status, now) if event is LifecycleEvent.COMPLETED else status
    return moved(
        before,
        event,
        reason=reason,
        message=message,
        now=now,
        placement=None,
        pending=None,
        finished_at=moment(now),
        usage=charged(status, over_at, milli=milli, gpu_class=gpu_class, loss=loss),
        **({"evaluator": evaluator_stopped(status)} | fields),
    )


def with_progress(status: TrainingJobStatus, progress: ProgressStatus | None) -> TrainingJobStatus:
    """The status with the attempt's progress. Restarts of ranks within their pods count as restarts of the job."""
    counted, now = (one.restarts if one else 0 for one in (status.progress, progress))
    return status.model_copy(update={"progress": progress, "restarts": status.restarts + max(0, now - counted)})
