"""What the move of one running job would do: whether it fits where it is asked to lie, and what work it costs.

Decided by the operator's own `schedule`, as the next cycle would be with the wish written down.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from cotenant.core.model.objects import Job, JobKey, Placement
from cotenant.core.model.plan import Evict, EvictionKind
from cotenant.core.scheduling.requested_moves import lies_elsewhere
from cotenant.core.scheduling.scheduler import place
from cotenant.query.cluster_change import requeued
from cotenant.query.situation import Situation

BEFORE: Final = "it was asked to leave before"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    job: JobKey
    fits: bool
    """It would be asked to leave at once, with a place kept for it."""
    held: tuple[tuple[str, int], ...]
    """(node, workers) of what it holds."""
    to: tuple[tuple[str, int], ...] = ()
    """The same of its new place."""
    message: str = ""
    """Reason why it does not fit; empty where it does."""
    there: bool = False
    """It lies where it is asked to lie."""
    unsaved_s: int = 0
    """Seconds since its newest checkpoint, or its start: what it loses unless it saves when it is asked to leave."""
    unsaved_milli_s: int = 0
    """The same times what it holds, in milli-GPU-seconds."""


def plan_move(situation: Situation, job: Job) -> MovePlan:
    """`job`: one that runs, as it is asked to lie."""
    jobs = tuple(job if one.key == job.key else one for one in situation.snapshot.jobs)
    plan = place(replace(situation.snapshot, jobs=jobs, accounting=None), situation.policy)
    moves = any(isinstance(one, Evict) and (one.job, one.kind) == (job.key, EvictionKind.MOVED) for one in plan.actions)
    unsaved = _unsaved_s(job, situation.planned.now)
    found = MovePlan(
        job=job.key,
        fits=moves,
        held=_nodes(job.placement),
        unsaved_s=unsaved,
        unsaved_milli_s=unsaved * _milli(job.placement),
    )
    if moves:
        return replace(found, to=_nodes(plan.nominations.get(job.key)))
    if not lies_elsewhere(job, situation.accounting.inventory):
        return replace(found, there=True, message="it lies there already")
    return replace(found, message=_why_not(situation, job))


def _why_not(situation: Situation, job: Job) -> str:
    if job.evicting:
        return BEFORE
    waits = requeued(job, situation.snapshot.now)
    jobs = tuple(waits if one.key == job.key else one for one in situation.snapshot.jobs)
    verdict = place(replace(situation.snapshot, jobs=jobs, accounting=None), situation.policy).verdicts.get(job.key)
    return verdict.message if verdict is not None else "it cannot be moved now"


def _unsaved_s(job: Job, now: float) -> int:
    since = max(job.admitted_at or now, job.last_checkpoint_at or 0.0)
    return max(0, int(now - since))


def _nodes(placement: Placement | None) -> tuple[tuple[str, int], ...]:
    counted: Counter[str] = Counter()
    for part in placement.nodes if placement else ():
        counted[part.node] += len(part.ranks)
    return tuple(counted.items())


def _milli(placement: Placement | None) -> int:
    grants = (gpu for part in (placement.nodes if placement else ()) for rank in part.ranks for gpu in rank.gpus)
    return sum(gpu.compute_milli for gpu in grants)
