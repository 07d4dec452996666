"""The timeline: jobs that ran, run, and are expected to run, as bars in a window around now.

The past comes from the objects (when workers first ran, when the job ended). The future comes from the operator's
estimates (the median start and the start by the 90th percentile) or from the program (time left).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant.core.model.lifecycle import Phase
from cotenant.dashboard.reading.rows import JobRow
from cotenant.dashboard.views.course import clock
from cotenant.dashboard.views.line import matches
from cotenant.dashboard.views.wish import Paged, Wish, paged

ROWS: Final = 40
WIDE: Final = 1000
TICKS: Final = {1: 600, 6: 3600, 24: 6 * 3600, 168: 24 * 3600}
"""Hours of the window on each side → seconds between two ticks."""

LABELLED: Final = 3
"""One tick in so many has its time beside it: a time with its date is as wide as two ticks."""
MARGIN: Final = 90
"""Half a time, in the middle of its tick, would reach past the page nearer to an end than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBar:
    x: float
    width: float
    kind: str
    """ran, failed, runs, expected, or start (between the two estimates)."""
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    job: JobRow
    bars: tuple[TimeBar, ...]
    evicted: float | None
    """When it was last asked to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineView:
    rows: Paged[TimelineRow]
    ticks: tuple[tuple[float, float], ...]
    """(position, Unix seconds)."""
    labels: tuple[tuple[float, float], ...]
    """The ticks that have their time beside them: as many as have room."""
    now: float
    """Position of the present."""
    without_estimate: int
    """Waiting jobs without an estimated start. They have no bar."""


@dataclass(frozen=True, slots=True)
class _Frame:
    begin: float
    end: float
    now: float

    def at(self, moment: float) -> float:
        return round((moment - self.begin) / (self.end - self.begin) * WIDE, 2)

    def bar(self, begin: float, end: float, kind: str, says: str) -> TimeBar | None:
        """The part of the bar inside the window; None if it lies outside."""
        begin, end = max(begin, self.begin), min(end, self.end)
        if end < begin:
            return None
        return TimeBar(x=self.at(begin), width=max(2.0, round(self.at(end) - self.at(begin), 2)), kind=kind, says=says)


def timeline_view(jobs: Iterable[JobRow], wish: Wish, now: float) -> TimelineView:
    frame = _Frame(now - wish.hours * 3600, now + wish.hours * 3600, now)
    matching = [job for job in jobs if matches(job, wish)]
    shown = [(begin, job) for job in matching if (begin := _begin(job, frame)) is not None]
    shown.sort(key=lambda one: (one[0], one[1].key))
    page = paged(shown, wish.page, ROWS)
    rows = [_row(job, frame) for _, job in page.items]
    step = TICKS[wish.hours]
    first = -(-frame.begin // step) * step
    moments = [first + number * step for number in range(int((frame.end - first) // step) + 1)]
    ticks = tuple((frame.at(moment), moment) for moment in moments)
    return TimelineView(
        rows=page.showing(rows),
        ticks=ticks,
        labels=_labels(ticks),
        now=frame.at(now),
        without_estimate=sum(job.phase == Phase.PENDING and job.start_at is None for job in matching),
    )


def _labels(ticks: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple(tick for tick in ticks[1::LABELLED] if MARGIN <= tick[0] <= WIDE - MARGIN)


def _begin(job: JobRow, frame: _Frame) -> float | None:
    """The begin of its first bar; None if no bar is in the window."""
    if job.phase == Phase.PENDING:
        return job.start_at if job.start_at is not None and job.start_at < frame.end else None
    begin = job.started or job.admitted
    if begin is None or begin > frame.end or (job.finished is not None and job.finished < frame.begin):
        return None
    return begin


def _row(job: JobRow, frame: _Frame) -> TimelineRow:
    bars = tuple(bar for bar in _bars(job, frame) if bar is not None)
    seen = job.evicted_at is not None and frame.begin <= job.evicted_at <= frame.end
    return TimelineRow(job=job, bars=bars, evicted=frame.at(job.evicted_at or 0.0) if seen else None)


def _bars(job: JobRow, frame: _Frame) -> Iterable[TimeBar | None]:
    if job.phase == Phase.PENDING:
        start = job.start_at or frame.now
        by = max(start, job.start_by or start)
        yield frame.bar(start, by, "start", f"starts about {clock(start)}, nine times out of ten by {clock(by)}")
        if job.expected_s:
            yield frame.bar(
                start, start + job.expected_s, "expected", f"expected until {clock(start + job.expected_s)}"
            )
        return
    begin = job.started or job.admitted or frame.now
    if job.finished is not None:
        kind = "failed" if job.phase == Phase.FAILED else "ran"
        yield frame.bar(begin, job.finished, kind, f"{clock(begin)} to {clock(job.finished)}, {job.phase}")
        return
    yield frame.bar(begin, frame.now, "runs", f"since {clock(begin)}, {job.phase}")
    left = job.remaining_s if job.remaining_s is not None else _left_of(job, begin, frame.now)
    if left is not None and job.phase == Phase.RUNNING:
        whose = "its program" if job.remaining_s is not None else "its expectedRuntime"
        yield frame.bar(frame.now, frame.now + left, "expected", f"until {clock(frame.now + left)}, says {whose}")


def _left_of(job: JobRow, begin: float, now: float) -> float | None:
    return None if job.expected_s is None else max(0.0, begin + job.expected_s - now)
