"""Reliability and showback by queue: sums of what jobs' objects say. What no object says is left out and named.

Useful GPU-time is not measured yet, so the page shows no goodput. It shows the part of the GPU-time of finished jobs
that belongs to those that succeeded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import WHOLE
from cotenant.dashboard.reading.rows import JobRow
from cotenant.dashboard.views.line import matches
from cotenant.dashboard.views.wish import Paged, Wish, paged

ROWS: Final = 100
HOUR_MS: Final = 3_600_000


@dataclass(slots=True, kw_only=True)
class ReliabilityRow:
    name: str
    jobs: int = 0
    succeeded: int = 0
    failed: int = 0
    restarts: int = 0
    held_ms: int = 0
    """GPUs × milliseconds."""
    ended_ms: int = 0
    succeeded_ms: int = 0
    unsaved_s: float = 0.0
    """GPU-seconds since the newest checkpoint of each running job: what these jobs would lose now."""
    never_saved: int = 0
    """Running jobs without a checkpoint."""

    @property
    def gpu_hours(self) -> float:
        return self.held_ms / HOUR_MS

    @property
    def succeeded_share(self) -> float | None:
        return self.succeeded_ms / self.ended_ms if self.ended_ms else None

    @property
    def hours_each_restart(self) -> float | None:
        return self.gpu_hours / self.restarts if self.restarts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityView:
    total: ReliabilityRow
    rows: Paged[ReliabilityRow]
    causes: tuple[tuple[str, int], ...]
    """How last attempts ended that did not succeed."""
    evictions: tuple[tuple[str, int], ...]


def reliability_view(jobs: Iterable[JobRow], wish: Wish, now: float) -> ReliabilityView:
    rows: dict[str, ReliabilityRow] = {}
    total = ReliabilityRow(name="all")
    causes, evictions = Counter[str](), Counter[str]()
    for job in jobs:
        if not matches(job, wish):
            continue
        for row in (total, rows.setdefault(job.queue, ReliabilityRow(name=job.queue))):
            _count(row, job, now)
        if job.exit_reason and job.phase != Phase.SUCCEEDED:
            causes[job.exit_reason] += 1
        if job.eviction:
            evictions[job.eviction] += 1
    ordered = sorted(rows.values(), key=lambda row: (-row.held_ms, row.name))
    return ReliabilityView(
        total=total,
        rows=paged(ordered, wish.page, ROWS),
        causes=tuple(causes.most_common(10)),
        evictions=tuple(evictions.most_common(10)),
    )


def _count(row: ReliabilityRow, job: JobRow, now: float) -> None:
    row.jobs += 1
    row.restarts += job.restarts
    row.held_ms += job.gpu_ms
    if job.phase in (Phase.SUCCEEDED, Phase.FAILED):
        row.ended_ms += job.gpu_ms
        row.succeeded += job.phase == Phase.SUCCEEDED
        row.failed += job.phase == Phase.FAILED
        row.succeeded_ms += job.gpu_ms if job.phase == Phase.SUCCEEDED else 0
    elif job.phase == Phase.RUNNING:
        since = job.saved_at or job.started or job.admitted or now
        row.unsaved_s += max(0.0, now - since) * job.milli / WHOLE
        row.never_saved += job.saved_at is None


@dataclass(slots=True, kw_only=True)
class ShowbackRow:
    queue: str
    namespace: str
    jobs: int = 0
    held_ms: int = 0
    holds_milli: int = 0
    """Thousandths of a GPU that it holds now."""

    @property
    def gpu_hours(self) -> float:
        return self.held_ms / HOUR_MS

    @property
    def gpus(self) -> float:
        return self.holds_milli / WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowbackView:
    rows: Paged[ShowbackRow]
    total: ShowbackRow


def showback_view(jobs: Iterable[JobRow], wish: Wish) -> ShowbackView:
    rows: dict[tuple[str, str], ShowbackRow] = defaultdict(lambda: ShowbackRow(queue="", namespace=""))
    total = ShowbackRow(queue="all", namespace="")
    for job in jobs:
        if not matches(job, wish):
            continue
        row = rows[job.queue, job.namespace]
        row.queue, row.namespace = job.queue, job.namespace
        for one in (row, total):
            one.jobs += 1
            one.held_ms += job.gpu_ms
            one.holds_milli += job.milli
    ordered = sorted(rows.values(), key=lambda row: (-row.held_ms, row.queue, row.namespace))
    return ShowbackView(rows=paged(ordered, wish.page, ROWS), total=total)
