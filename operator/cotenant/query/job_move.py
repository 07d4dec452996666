"""The effect of moving one running job: whether it fits in the requested place, and how much work it loses.

The operator's own `schedule` decides, as the next cycle would with the request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Evict, EvictionKind, Plan
from cotenant.core.scheduling.requested_moves import lies_elsewhere
from cotenant.core.scheduling.scheduler import place
from cotenant.query.cluster_change import requeued
from cotenant.query.redaction import held_milli
from cotenant.query.situation import Situation

BEFORE: Final = "it was asked to leave before"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    job: JobKey
    fits: bool
    """True if it would be asked to leave at once, with a place reserved for it."""
    held: tuple[tuple[str, int], ...]
    """(node, workers) that it holds."""
    to: tuple[tuple[str, int], ...] = ()
    """(node, workers) of its new place."""
    message: str = ""
    """Why it does not fit; empty if it does."""
    there: bool = False
    """True if it runs in the requested place already."""
    unsaved_s: int = 0
    """Seconds since its newest checkpoint, or its start: what it loses unless it saves when it is asked to leave."""
    unsaved_milli_s: int = 0
    """The same times what it holds, in milli-GPU-seconds."""


def plan_move(situation: Situation, job: Job) -> MovePlan:
    """`job` is a running job with the requested restriction."""
    plan = _plan_with(situation, job)
    moves = any(isinstance(one, Evict) and (one.job, one.kind) == (job.key, EvictionKind.MOVED) for one in plan.actions)
    unsaved = _unsaved_s(job, situation.planned.now)
    found = MovePlan(
        job=job.key,
        fits=moves,
        held=job.placement.workers_on if job.placement else (),
        unsaved_s=unsaved,
        unsaved_milli_s=unsaved * held_milli(job.placement, situation.gpus) if job.placement else 0,
    )
    if moves:
        return replace(found, to=plan.nominations[job.key].workers_on if job.key in plan.nominations else ())
    if not lies_elsewhere(job, situation.accounting.inventory):
        return replace(found, there=True, message="it is there already")
    return replace(found, message=_why_not(situation, job))


def _plan_with(situation: Situation, job: Job) -> Plan:
    """The next plan, with this job in the place of the one of its key."""
    jobs = tuple(job if one.key == job.key else one for one in situation.snapshot.jobs)
    return place(replace(situation.snapshot, jobs=jobs, accounting=None), situation.policy)


def _why_not(situation: Situation, job: Job) -> str:
    if job.evicting:
        return BEFORE
    verdict = _plan_with(situation, requeued(job, situation.snapshot.now)).verdicts.get(job.key)
    return verdict.message if verdict is not None else "it cannot be moved now"


def _unsaved_s(job: Job, now: float) -> int:
    since = max(job.admitted_at or now, job.last_checkpoint_at or 0.0)
    return max(0, int(now - since))
