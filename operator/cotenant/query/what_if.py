"""The effect of a change, by the operator's own `schedule` on the planned snapshot with and without it.

`schedule` is a function of the snapshot. So a change that is applied while nothing else happens is decided as it was
here: a job that is said to start does so in the next cycle, and one that is said to start after others have left is
promised its place in that cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Final

from cotenant.core.allocation.request import request_key
from cotenant.core.model.formatting import describe_request
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Plan
from cotenant.core.outlook.estimates import Estimate, Outlook
from cotenant.core.placement.shapes import heaviest, worker_shape
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import place, schedule
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.query.redaction import JobMention, Sees, mentioned, redacted
from cotenant.query.situation import Situation

MENTIONED: Final = 50
"""Jobs of each kind that one answer describes. Others are counted."""
WORTH_S: Final = 60.0
"""A start that moves by less is not mentioned, because estimates are less exact."""


class ProposalOutcome(StrEnum):
    STARTS = "Starts"
    AFTER_EVICTIONS = "StartsAfterEvictions"
    WAITS = "Waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    job: JobKey
    outcome: ProposalOutcome
    queue: str
    asks: str
    nodes: tuple[tuple[str, int], ...] = ()
    """Where it would run: (node, workers)."""
    reason: str = ""
    message: str = ""
    needs_change: bool = False
    would_start_if: str = ""
    change: tuple[tuple[str, str], ...] = ()
    victims: tuple[JobMention, ...] = ()
    """Jobs that would be asked to leave for it."""
    delayed: tuple[JobMention, ...] = ()
    """Jobs that would start now, or sooner, without it."""
    delayed_more: int = 0
    start_at: float | None = None
    start_by: float | None = None
    namespaces: frozenset[str] = frozenset()

    def as_seen(self, sees: Sees) -> WhatIf:
        """The answer without the names of jobs that the caller may not read."""
        return replace(
            self,
            message=redacted(self.message, self.namespaces, sees),
            would_start_if=redacted(self.would_start_if, self.namespaces, sees),
            victims=tuple(one.as_seen(sees) for one in self.victims),
            delayed=tuple(one.as_seen(sees) for one in self.delayed),
            namespaces=frozenset(),
        )


def what_if(situation: Situation, job: Job, goes_on: Callable[[], bool]) -> WhatIf:
    """The effect on the job: a new one, or another spec of a waiting one.

    `goes_on` is asked between steps of the played future, which ends when it says no. Then estimates are missing or
    less certain.
    """
    changed = with_job(situation.snapshot, job)
    plan = schedule(changed, situation.policy)
    victims = [
        situation.mention(one.job, why_leaves(one.kind))
        for one in plan.actions
        if isinstance(one, Evict) and one.in_favour_of == job.key
    ]
    without = place(situation.snapshot, situation.policy)
    delayed = [situation.mention(key, "it would start now") for key in _displaced(without, plan, job.key)]
    found = _of_plan(plan, job)
    if found.outcome is ProposalOutcome.WAITS and not found.needs_change:
        estimates = play(changed, situation.policy, goes_on)
        before = play(situation.snapshot, situation.policy, goes_on)
        if (own := estimates.get(job.key)) is not None:
            found = replace(found, start_at=own.p50, start_by=own.p90 if own.p90 < inf else None)
        known = {one.job for one in delayed}
        later = [key for key in _later(before, estimates) if key not in known and key != job.key]
        delayed += [situation.mention(key, "it would start sooner") for key in later]
    known_namespaces = situation.namespaces | {job.namespace}
    named = mentioned(found.message, known_namespaces) | mentioned(found.would_start_if, known_namespaces)
    return replace(
        found,
        victims=tuple(victims),
        delayed=tuple(delayed[:MENTIONED]),
        delayed_more=max(0, len(delayed) - MENTIONED),
        namespaces=frozenset(named | {one.namespace for one in (*victims, *delayed)}),
    )


def with_job(snapshot: Snapshot, job: Job) -> Snapshot:
    """The snapshot in which this job replaces the one of its key, if there is one. It keeps its nominated place if it
    asks for the same, and what placement learns from is what arrived, as `ClusterState` has it.
    """
    others = tuple(one for one in snapshot.jobs if one.key != job.key)
    demands = dict(snapshot.demand_history)
    if len(others) == len(snapshot.jobs):
        shape = worker_shape(job)
        demands[shape] = demands.get(shape, 0.0) + job.workers_min
    asks_for_the_same = any(one.key == job.key and request_key(one) == request_key(job) for one in snapshot.jobs)
    kept = tuple(one for one in snapshot.nominations if asks_for_the_same or one[0] != job.key)
    return replace(snapshot, jobs=(*others, job), nominations=kept, demand_history=heaviest(demands), accounting=None)


def play(snapshot: Snapshot, policy: Policy, goes_on: Callable[[], bool]) -> Mapping[JobKey, Estimate]:
    """Starts from futures that are played from here on, as far as there is time."""
    outlook = Outlook(policy)
    outlook.observe(snapshot, {})
    while goes_on() and outlook.step():
        pass
    return outlook.estimates()


def _of_plan(plan: Plan, job: Job) -> WhatIf:
    about = WhatIf(job=job.key, outcome=ProposalOutcome.WAITS, queue=job.queue, asks=describe_request(job))
    admitted = next((one for one in plan.actions if isinstance(one, Admit) and one.job == job.key), None)
    if admitted is not None:
        return replace(about, outcome=ProposalOutcome.STARTS, nodes=admitted.placement.workers_on)
    verdict = plan.verdicts.get(job.key)
    if verdict is None:
        return about
    promised = plan.nominations.get(job.key)
    told = replace(
        about,
        reason=verdict.reason.value,
        message=verdict.message,
        needs_change=verdict.reason.needs_change,
        would_start_if=verdict.would_start_if,
        change=verdict.change,
    )
    return (
        told if promised is None else replace(told, outcome=ProposalOutcome.AFTER_EVICTIONS, nodes=promised.workers_on)
    )


def _displaced(without: Plan, plan: Plan, key: JobKey) -> list[JobKey]:
    """Jobs that start, or are promised a place, only without the change; sorted by key."""
    started, starts = (
        {one.job for one in each.actions if isinstance(one, Admit)} | set(each.nominations) for each in (without, plan)
    )
    return sorted(started - starts - {key})


def _later(before: Mapping[JobKey, Estimate], after: Mapping[JobKey, Estimate]) -> list[JobKey]:
    """Jobs whose estimated start moves back, the largest difference first."""
    moved = {key: after[key].p50 - one.p50 for key, one in before.items() if key in after and after[key].p50 > one.p50}
    return sorted((key for key, by in moved.items() if by >= WORTH_S), key=lambda key: (-moved[key], key))


def why_leaves(kind: EvictionKind) -> str:
    return {
        EvictionKind.PREEMPTED: "it has a lower priority",
        EvictionKind.RECLAIMED: "it runs on GPUs that its queue has borrowed",
        EvictionKind.OVERRAN: "it has run longer than it declared",
        EvictionKind.MOVED: "it would be moved",
    }.get(kind, "its node is lost")
