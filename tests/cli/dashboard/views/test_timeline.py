"""The timeline: bars where something is known, in a window around now."""

from __future__ import annotations

import pytest

from cotenant.dashboard.reading.rows import JobRow
from cotenant.dashboard.views.timeline import timeline_view
from cotenant.dashboard.views.wish import Wish

NOW = 1_000_000.0
HOUR = 3600.0
"""The window is six of them to each side: its middle is at 500."""


def row(name: str, phase: str = "Pending", **more: object) -> JobRow:
    return JobRow(namespace="red", name=name, phase=phase, queue="a", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("job", "bars"),
    [
        (
            row("x", "Running", started=NOW - 3 * HOUR, remaining_s=3 * 3600),
            [("runs", 250, 250), ("expected", 500, 250)],
        ),
        (
            row("x", "Running", started=NOW - 3 * HOUR, expected_s=4 * 3600),
            [("runs", 250, 250), ("expected", 500, 83.33)],
        ),
        (row("x", "Running", started=NOW - 3 * HOUR), [("runs", 250, 250)]),
        (row("x", "Running", started=NOW - 99 * HOUR), [("runs", 0, 500)]),
        (row("x", "Starting", admitted=NOW - 3 * HOUR), [("runs", 250, 250)]),
        (row("x", "Failed", started=NOW - 6 * HOUR, finished=NOW - 3 * HOUR), [("failed", 0, 250)]),
        (row("x", "Succeeded", started=NOW - 20 * HOUR, finished=NOW - 19 * HOUR), None),
        (row("x", start_at=NOW + 3 * HOUR, start_by=NOW + 9 * HOUR), [("start", 750, 250)]),
        (row("x", start_at=NOW + 3 * HOUR, expected_s=3600), [("start", 750, 2), ("expected", 750, 83.33)]),
        (row("x", start_at=NOW + 30 * HOUR), None),
        (row("x"), None),
    ],
)
def test_a_job_has_bars_where_something_is_known(job: JobRow, bars: list[tuple[str, float, float]] | None) -> None:
    found = timeline_view([job], Wish(), NOW).rows.items
    shown = [[(bar.kind, bar.x, bar.width) for bar in one.bars] for one in found]
    assert shown == ([] if bars is None else [bars])


def test_jobs_without_an_estimate_are_counted_and_evictions_marked() -> None:
    jobs = [row("w"), row("e", "Running", started=NOW - HOUR, evicted_at=NOW - 3 * HOUR, eviction="Reclaimed")]
    view = timeline_view(jobs, Wish(), NOW)
    assert view.without_estimate == 1
    assert [one.evicted for one in view.rows.items] == [250]


def test_every_third_tick_has_its_time_beside_it() -> None:
    view = timeline_view([], Wish(), NOW)
    assert view.labels == view.ticks[1::3]
    assert len(view.labels) == 4


@pytest.mark.parametrize("hours", [1, 6, 24, 168])
def test_no_time_reaches_past_the_ends_of_the_page(hours: int) -> None:
    shown = [timeline_view([], Wish(hours=hours), NOW + 600 * step).labels for step in range(0, 200, 7)]
    assert all(len(labels) >= 2 for labels in shown)
    assert all(90 <= at <= 910 for labels in shown for at, _ in labels)
