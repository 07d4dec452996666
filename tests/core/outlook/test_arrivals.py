"""The near past, once more."""

from __future__ import annotations

from itertools import islice

from cotenant.core.outlook.arrivals import PastArrivals
from cotenant.testing import make_job, make_snapshot


def test_the_past_comes_again_from_any_part_of_it_on() -> None:
    past = PastArrivals()
    past.observe(make_snapshot(nodes=[], queues=[], jobs=[make_job(f"j{n}", at=10.0 * n) for n in range(10)]))

    again = [(job.key, job.submitted_at) for job in islice(past.again(100.0, 0.8), 4)]

    assert again == [("red/j8#1", 100.0), ("red/j9#2", 110.0), ("red/j0#3", 120.0), ("red/j1#4", 130.0)]


def test_a_few_jobs_are_no_past() -> None:
    past = PastArrivals()
    past.observe(make_snapshot(nodes=[], queues=[], jobs=[make_job(f"j{n}", at=10.0 * n) for n in range(7)]))

    assert list(past.again(100.0, 0.0)) == []


def test_of_a_long_past_the_last_jobs_are_kept() -> None:
    past = PastArrivals()
    past.observe(make_snapshot(nodes=[], queues=[], jobs=[make_job(f"j{n:03}", at=float(n)) for n in range(600)]))

    assert next(iter(past.again(600.0, 0.0))).key == "red/j088#1"
