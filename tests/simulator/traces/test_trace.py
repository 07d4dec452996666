"""A trace: its order, windows of it, and what its jobs declare."""

from __future__ import annotations

import pytest

from cotenant.simulator.traces.trace import Trace, TraceError, TraceJob, seconds_of


def job(name: str, at: float, declared_s: int | None = None) -> TraceJob:
    return TraceJob(name=name, submitted_at=at, duration_s=100.0, gpus=1, queue=name, declared_s=declared_s)


TRACE = Trace.of([job("c", 30), job("a", 10), job("b", 20, declared_s=7)], ["a note"])


def test_a_window_includes_its_start_and_excludes_its_end_and_counts_the_rest() -> None:
    window = TRACE.window(10, 30)
    assert [one.name for one in window.jobs] == ["a", "b"]
    assert window.notes == ("a note", "1 × not used: arrived outside the window")
    assert TRACE.window(None, None) == TRACE
    with pytest.raises(TraceError, match="3 × not used"):
        TRACE.window(31, None)


def test_jobs_may_be_made_to_declare_more_or_less_than_is_true() -> None:
    assert [one.declared_s for one in TRACE.jobs] == [None, 7, None]
    assert [one.declared_s for one in TRACE.declaring(150).jobs] == [150, 150, 150]
    assert [one.declared_s for one in TRACE.declaring(None).jobs] == [None, None, None]


def test_all_jobs_may_be_played_in_one_queue() -> None:
    assert {one.queue for one in TRACE.in_one_queue("all").jobs} == {"all"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("86400", 86_400.0),
        ("1.5", 1.5),
        ("1970-01-02", 86_400.0),
        ("1970-01-01 00:01:00", 60.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
    ],
)
def test_times_are_seconds_or_dates(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
