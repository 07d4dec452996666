"""The status of a TrainingJob after something has happened to it. Pure.

The phase always comes from the core's transition table, the conditions from the phase. One call is one transition, and
becomes one write.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from cotenant.api.conversion.placements import from_placement
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.placement_status import IsolationLevels
from cotenant.api.resources.trainingjob_status import (
    EARLIER_EXITS_MAX,
    Condition,
    EarlierExit,
    EvictionStatus,
    ExitStatus,
    PendingStatus,
    ProgressStatus,
    TrainingJobStatus,
    UsageStatus,
)
from cotenant.api.scalars.status_text import plain_sentence, plain_word
from cotenant.controller.informers import quarantine
from cotenant.core.model.formatting import shown_evidence
from cotenant.core.model.lifecycle import HOLDING, LifecycleEvent, Phase, next_phase
from cotenant.core.model.objects import Placement
from cotenant.core.model.plan import Verdict

OVERDUE: Final = "TerminationOverdue"
"""Condition: pods that were asked to end are there beyond their time. It does not follow from the phase."""


class UnexpectedEventError(RuntimeError):
    """The transition table has no line for this: a defect of the operator, not of a job."""


def moved(
    status: TrainingJobStatus, event: LifecycleEvent, *, reason: str, message: str, now: float, **fields: Any
) -> TrainingJobStatus:
    """The status one transition further. `fields` are what else this transition changes."""
    phase = next_phase(Phase(status.phase or Phase.PENDING), event)
    if phase is None:
        raise UnexpectedEventError(f"{event} in phase {status.phase}")
    said = {"reason": plain_word(reason), "message": plain_sentence(message)}
    if isinstance(last := fields.get("last_exit"), ExitStatus):
        fields |= exit_fields(status, last)
    changed = status.model_copy(update={"phase": phase, **said, **fields})
    return changed.model_copy(update={"conditions": conditions(changed, now)})


def exit_fields(status: TrainingJobStatus, last: ExitStatus) -> dict[str, Any]:
    """Fields of a status whose running attempt ended so: what is known of the end of the one before stays, shorter."""
    plain = {"reason": plain_word(last.reason), "message": plain_sentence(last.message), "attempt": status.attempts}
    before, earlier = status.last_exit, status.earlier_exits
    if before is not None and before.attempt != status.attempts:
        earlier = (*earlier, _earlier(before))[-EARLIER_EXITS_MAX:]
    return {"last_exit": last.model_copy(update=plain), "earlier_exits": earlier}


def _earlier(last: ExitStatus) -> EarlierExit:
    return EarlierExit.model_validate(last.model_dump(include=set(EarlierExit.model_fields)))


def explained(status: TrainingJobStatus, *, reason: str, message: str, now: float) -> TrainingJobStatus:
    """In the same phase for another reason."""
    changed = status.model_copy(update={"reason": plain_word(reason), "message": plain_sentence(message)})
    return changed.model_copy(update={"conditions": conditions(changed, now)})


def conditions(status: TrainingJobStatus, now: float) -> tuple[Condition, ...]:
    """Conditions of the phase and those kept beside them, for `kubectl wait` and tools, each with since when."""
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
        same = old is not None and old.status == str(true)
        made.append(
            Condition(
                type=kind,
                status=str(true),
                reason=old.reason if same and old and kind == "Admitted" and true else status.reason or phase.value,
                message=old.message if same and old and kind == "Admitted" and true else status.message or "",
                last_transition_time=old.last_transition_time if same and old else now,
                observed_generation=status.observed_generation,
            )
        )
    return (*made, *(one for one in status.conditions if one.type in {OVERDUE, quarantine.CONDITION}))


def admitted(
    status: TrainingJobStatus,
    placement: Placement,
    isolation: IsolationLevels,
    message: str,
    now: float,
    *,
    backfilled_until: float | None = None,
    servers: int = 0,
) -> TrainingJobStatus:
    """The commit of an admission: from here on the job holds its GPUs."""
    return moved(
        status,
        LifecycleEvent.ADMITTED,
        reason="Admitted",
        message=message,
        now=now,
        placement=from_placement(
            placement, admitted_at=now, isolation=isolation.memory, backfilled_until=backfilled_until, servers=servers
        ),
        pending=None,
        isolation=isolation.memory,
        isolation_levels=isolation,
        attempts=status.attempts + 1,
        restarts=status.restarts + (status.attempts > 0),
        progress=None,
    )


def resized(
    status: TrainingJobStatus,
    placement: Placement,
    *,
    isolation: IsolationLevels,
    message: str,
    milli: int,
    now: float,
    servers: int = 0,
) -> TrainingJobStatus:
    """An elastic job gets other GPUs: the next attempt begins, without ever having waited again, and what it promised
    for those that it started on still holds.
    """
    until = unix_seconds(status.placement.backfilled_until) if status.placement else None
    return moved(
        status,
        LifecycleEvent.RESIZED,
        reason="Resized",
        message=message,
        now=now,
        placement=from_placement(
            placement, admitted_at=now, isolation=isolation.memory, backfilled_until=until, servers=servers
        ),
        usage=charged(status, now, milli=milli),
        isolation=isolation.memory,
        isolation_levels=isolation,
        attempts=status.attempts + 1,
        restarts=status.restarts + 1,
        progress=None,
    )


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
    return moved(status, event, reason=kind, message=message, now=now, eviction=eviction, usage=ran, **fields)


def released(status: TrainingJobStatus, *, milli: int, over_at: float, now: float) -> TrainingJobStatus:
    """The last pod is gone: the placement is free, and the job waits again with the age it had."""
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
        usage=charged(status, over_at, milli=milli),
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
    **fields: Any,
) -> TrainingJobStatus:
    return moved(
        status,
        event,
        reason=reason,
        message=message,
        now=now,
        placement=None,
        pending=None,
        finished_at=moment(now),
        usage=charged(status, over_at, milli=milli),
        **fields,
    )


def waiting(status: TrainingJobStatus, verdict: Verdict, now: float) -> TrainingJobStatus:
    """Pending, with the verdict of the scheduler. `since` is kept while the reason stays."""
    before = status.pending
    since = before.since if before and before.reason == verdict.reason.value and before.since else now
    pending = PendingStatus(
        reason=verdict.reason.value,
        message=plain_sentence(verdict.message),
        since=since,
        estimated_start=verdict.estimated_start_at,
        latest_start=verdict.latest_start_at,
        position=verdict.position,
        ahead=verdict.ahead or None,
        starts_by=verdict.starts_by,
        starts_by_basis=verdict.starts_by_basis or None,
        would_start_if=verdict.would_start_if or None,
        change=dict(verdict.change) or None,
        evidence=shown_evidence(verdict.evidence),
    )
    changed = status.model_copy(
        update={
            "phase": Phase.PENDING,
            "reason": verdict.reason.value,
            "message": plain_sentence(verdict.message),
            "pending": pending,
        }
    )
    return changed.model_copy(update={"conditions": conditions(changed, now)})


def with_progress(status: TrainingJobStatus, progress: ProgressStatus | None) -> TrainingJobStatus:
    """With what is known of the running attempt; starts of its ranks in their pods count as restarts of the job."""
    counted, now = (one.restarts if one else 0 for one in (status.progress, progress))
    return status.model_copy(update={"progress": progress, "restarts": status.restarts + max(0, now - counted)})


def charged(status: TrainingJobStatus, over_at: float, *, milli: int) -> UsageStatus:
    """Usage with the attempt that was over then; `milli` is what its placement holds, in milli-GPU."""
    before = status.usage or UsageStatus()
    held = over_at - (unix_seconds(status.placement.admitted_at) or over_at) if status.placement else 0.0
    exact = before.gpu_milliseconds + int(milli * max(0.0, held))
    return UsageStatus(
        gpu_seconds=exact // 1000,
        gpu_milliseconds=exact,
        run_seconds=before.run_seconds + int(ran_for(status, over_at)),
    )


def ran_for(status: TrainingJobStatus, now: float) -> float:
    """Seconds that the running attempt has run; 0 when none runs."""
    for condition in status.conditions:
        if condition.type == "Running" and condition.status == "True":
            return max(0.0, now - (unix_seconds(condition.last_transition_time) or now))
    return 0.0


def moment(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC)
