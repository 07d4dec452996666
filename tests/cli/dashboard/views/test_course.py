"""The course of a run: bars that follow one another from its submission to its end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.dashboard.views.course import WIDE, course


def at(minute: int) -> str:
    return f"2026-03-02T{minute // 60:02d}:{minute % 60:02d}:00Z"


def status(begin: int, end: int, *happened: tuple[int, str]) -> dict[str, object]:
    timeline = [{"at": at(minute), "what": what} for minute, what in happened]
    return {"createdAt": at(begin), "finishedAt": at(end), "timeline": timeline}


@pytest.mark.parametrize(
    ("given_", "bars"),
    [
        (status(0, 100), [("waits", 0, 1000)]),
        (status(0, 100, (0, "Waits"), (25, "Admitted"), (30, "Running")), [("waits", 0, 250), ("runs", 250, 750)]),
        (status(0, 100, (0, "Admitted")), [("runs", 0, 1000)]),
        (
            status(0, 100, (10, "Admitted"), (50, "Evicted"), (60, "Waits"), (80, "Admitted"), (90, "Resized")),
            [("waits", 0, 100), ("runs", 100, 400), ("waits", 500, 300), ("runs", 800, 200)],
        ),
        (status(50, 100, (10, "Admitted"), (500, "Evicted")), [("runs", 0, 1000)]),
        (status(0, 100, (10, "Succeeded"), (20, "NewInALaterVersion")), [("waits", 0, 1000)]),
        (status(100, 100), []),
        ({"createdAt": at(0)}, []),
        ({}, []),
    ],
    ids=["waited", "ran", "at once", "evicted", "odd times", "other words", "no time", "no end", "nothing"],
)
def test_what_was_recorded_becomes_bars(given_: dict[str, object], bars: list[tuple[str, float, float]]) -> None:
    assert [(bar.kind, bar.x, bar.width) for bar in course(given_)] == bars


@given(st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(["Admitted", "Evicted", "Waits", "Failed"]))))
def test_bars_follow_one_another_without_a_gap(happened: list[tuple[int, str]]) -> None:
    bars = course(status(0, 1000, *happened))
    assert bars[0].x == 0
    for before, after in pairwise(bars):
        assert before.kind != after.kind
        assert after.x - before.x <= before.width + 0.02
    assert bars[-1].x + bars[-1].width >= WIDE - 0.02
