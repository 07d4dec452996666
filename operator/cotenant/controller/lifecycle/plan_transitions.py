"""The status of a TrainingJob after a decision of the scheduler: admitted, resized, or left to wait. Pure."""

from __future__ import annotations

from cotenant.api.conversion.placements import from_placement
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.placement_status import IsolationLevels
from cotenant.api.resources.trainingjob_status import (
    PendingStatus,
    TrainingJobStatus,
)
from cotenant.api.scalars.status_text import plain_sentence
from cotenant.controller.lifecycle.attempt_usage import charged
from cotenant.controller.lifecycle.status_transitions import altered, moved
from cotenant.core.model.formatting import shown_evidence
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from cotenant.core.model.objects import Placement
from cotenant.core.model.plan import Verdict


def admitted(
    status: TrainingJobStatus,
    placement: Placement,
    isolation: IsolationLevels,
    message: str,
    now: float,
    *,
    backfilled_until: float | None = None,
    servers: int = 0,
    priority: int | None = None,
) -> TrainingJobStatus:
    """Commit an admission: the job holds its GPUs from now on."""
    return moved(
        status,
        LifecycleEvent.ADMITTED,
        reason="Admitted",
        message=message,
        now=now,
        placement=from_placement(
            placement,
            admitted_at=now,
            isolation=isolation.memory,
            backfilled_until=backfilled_until,
            servers=servers,
            priority=priority,
        ),
        pending=None,
        isolation=isolation.memory,
        isolation_levels=isolation,
        attempts=status.attempts + 1,
        restarts=status.restarts + (status.attempts > 0),
        progress=None,
        evaluator=None,
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
    gpu_class: str = "",
) -> TrainingJobStatus:
    """Give an elastic job other GPUs. Its next attempt begins without waiting, and earlier promises still hold."""
    until = unix_seconds(status.placement.backfilled_until) if status.placement else None
    return moved(
        status,
        LifecycleEvent.RESIZED,
        reason="Resized",
        message=message,
        now=now,
        placement=from_placement(
            placement,
            admitted_at=now,
            isolation=isolation.memory,
            backfilled_until=until,
            servers=servers,
            priority=status.placement.priority if status.placement else None,
        ),
        usage=charged(status, now, milli=milli, gpu_class=gpu_class),
        isolation=isolation.memory,
        isolation_levels=isolation,
        attempts=status.attempts + 1,
        restarts=status.restarts + 1,
        progress=None,
        evaluator=None,
    )


def waiting(status: TrainingJobStatus, verdict: Verdict, now: float) -> TrainingJobStatus:
    """Pending, with the scheduler's verdict. `since` stays while the reason is the same."""
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
    return altered(status, now, phase=Phase.PENDING, reason=pending.reason, message=pending.message, pending=pending)
