"""Several policies over one trace, side by side: a table, and the queues of each policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cotenant.core.model.objects import WHOLE, TenantQueue
from cotenant.simulator.outcomes import HOUR, Load, ReplayedJob, Summary, summarise
from cotenant.simulator.report import mean

_COLUMNS = (
    ("policy", lambda one: one.policy),
    ("ended", lambda one: f"{one.ended:,} of {one.jobs:,}"),
    ("JCT mean", lambda one: f"{one.jct_mean_h:.2f} h"),
    ("p50", lambda one: f"{one.jct_p50_h:.2f} h"),
    ("p99", lambda one: f"{one.jct_p99_h:.1f} h"),
    ("wait", lambda one: f"{one.wait_mean_h:.2f} h"),
    ("ρ mean", lambda one: f"{one.rho_mean:.2f}"),
    ("ρ p99", lambda one: f"{one.rho_p99:.1f}"),
    ("ρ > 1.05", lambda one: f"{one.unfair_percent:.0f} %"),
    ("evictions", lambda one: f"{one.evictions:,}"),
    ("a job", lambda one: f"{one.evictions_per_job:.3f}"),
    ("most", lambda one: f"{one.evictions_most}"),
    ("lost", lambda one: f"{one.lost_gpu_h:,.0f} GPU-h"),
    ("GPUs busy", lambda one: f"{one.busy_percent:.1f} %"),
    ("all ended after", lambda one: f"{one.makespan_h:,.0f} h"),
)


@dataclass(frozen=True, slots=True)
class Played:
    policy: str
    outcomes: Sequence[ReplayedJob]
    is_yardstick: bool = False

    def summary(self, gpus: int) -> Summary:
        return summarise(self.policy, self.outcomes, gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    policy: str
    queue: str
    jobs: int
    guaranteed_gpus: int
    jct_mean_h: float
    evictions: int
    owed_gpu_h: float
    """GPU-hours within its guarantee that the queue's jobs asked for and did not have."""


def table(played: Sequence[Played], gpus: int) -> list[str]:
    summaries = [one.summary(gpus) for one in played]
    return aligned([[title for title, _ in _COLUMNS], *([show(one) for _, show in _COLUMNS] for one in summaries)])


def queue_table(played: Sequence[Played], queues: Sequence[TenantQueue]) -> list[str]:
    title = ["queue", "policy", "jobs", "guaranteed", "JCT mean", "evictions", "owed of its guarantee"]
    rows = [
        [
            one.queue,
            one.policy,
            f"{one.jobs:,}",
            f"{one.guaranteed_gpus} GPU",
            f"{one.jct_mean_h:.2f} h",
            f"{one.evictions:,}",
            f"{one.owed_gpu_h:,.1f} GPU-h",
        ]
        for one in by_queue(played, queues)
    ]
    return aligned([title, *rows])


def by_queue(played: Sequence[Played], queues: Sequence[TenantQueue]) -> list[QueueSummary]:
    """Figures of the real policies, queue by queue. Yardsticks have no queues."""
    return [
        _queue_summary(one, queue)
        for queue in queues
        for one in played
        if not one.is_yardstick and any(outcome.queue == queue.name for outcome in one.outcomes)
    ]


def _queue_summary(played: Played, queue: TenantQueue) -> QueueSummary:
    own = [one for one in played.outcomes if one.queue == queue.name]
    guaranteed = sum(quota.guaranteed for quota in queue.quotas)
    return QueueSummary(
        policy=played.policy,
        queue=queue.name,
        jobs=len(own),
        guaranteed_gpus=guaranteed // WHOLE,
        jct_mean_h=mean([one.jct_s / HOUR for one in own if one.end is not None]),
        evictions=sum(one.evictions for one in own),
        owed_gpu_h=owed_milli_s(own, guaranteed) / WHOLE / HOUR,
    )


def owed_milli_s(own: Sequence[ReplayedJob], guaranteed: int) -> float:
    """∫ (min(guaranteed, asked for) − held)⁺ over time, in milli-GPU × seconds.

    A gang that does not fit the rest of a guarantee counts too: a gang of 8 that waits while 4 GPUs are left is owed 4.
    """
    asked = Load((one.submitted_at, one.end, float(one.milli)) for one in own if one.end is not None)
    held = Load((part.start, part.end, float(part.milli)) for one in own for part in one.held)
    moments = sorted(
        {one.submitted_at for one in own}
        | {one.end for one in own if one.end is not None}
        | {moment for one in own for part in one.held for moment in (part.start, part.end)}
    )
    return sum(
        max(0.0, min(guaranteed, asked.at(start)) - held.at(start)) * (end - start) for start, end in pairwise(moments)
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column is left-aligned, the others are right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def as_values(played: Sequence[Played], queues: Sequence[TenantQueue], gpus: int) -> Mapping[str, object]:
    """Values for JSON: the policies, their queues, and the number of evictions of each evicted job."""
    return {
        "policies": [_fields(one.summary(gpus)) for one in played],
        "queues": [_fields(one) for one in by_queue(played, queues)],
        "evictions": {
            one.policy: {outcome.name: outcome.evictions for outcome in one.outcomes if outcome.evictions}
            for one in played
        },
    }


def _fields(value: Summary | QueueSummary) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
