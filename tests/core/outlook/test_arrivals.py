"""Recent arrivals, repeated."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from cotenant.core.model.objects import Job
from cotenant.core.outlook.arrivals import PastArrivals
from tests.support.clusters import make_job, make_placement, make_snapshot


def test_recent_arrivals_are_repeated_from_any_point_in_time() -> None:
    past = PastArrivals()
    past.observe(make_snapshot(nodes=[], queues=[], jobs=[make_job(f"j{n}", at=10.0 * n) for n in range(10)]))

    again = [(job.key, job.submitted_at) for job in islice(past.again(100.0, 0.8), 4)]

    assert again == [("red/j8#1", 100.0), ("red/j9#2", 110.0), ("red/j0#3", 120.0), ("red/j1#4", 130.0)]


def test_too_few_arrivals_are_not_repeated() -> None:
    past = PastArrivals()
    past.observe(make_snapshot(nodes=[], queues=[], jobs=[make_job(f"j{n}", at=10.0 * n) for n in range(7)]))

    assert list(past.again(100.0, 0.0)) == []


def test_only_the_last_arrivals_of_a_long_history_are_kept() -> None:
    past = PastArrivals()
    past.observe(make_snapshot(nodes=[], queues=[], jobs=[make_job(f"j{n:03}", at=float(n)) for n in range(600)]))

    assert next(iter(past.again(600.0, 0.0))).key == "red/j088#1"


def past_of(*jobs: Job) -> PastArrivals:
    past = PastArrivals()
    past.observe(make_snapshot(nodes=[], queues=[], jobs=list(jobs)))
    return past


def test_a_repeated_job_arrives_as_it_first_arrived() -> None:
    bare = [make_job(f"j{n}", at=10.0 + n) for n in range(8)]
    placed = make_placement(("n1", [[0]]))
    ran = [
        replace(job, placement=placed, admitted_at=20.0, backfilled_until=90.0, evicting=True, ran_s=7) for job in bare
    ]
    again = list(islice(past_of(*ran).again(100.0, 0.0), 8))
    assert again == [
        replace(job, key=f"{job.key}#{n}", uid=f"{job.uid}#{n}", submitted_at=100.0 + n - 1)
        for n, job in enumerate(bare, start=1)
    ]


def test_the_oldest_arrivals_are_forgotten_first() -> None:
    past = past_of(*(make_job(f"a{n:03}", at=float(n)) for n in range(512)))
    past.observe(make_snapshot(nodes=[], queues=[], jobs=[make_job("b", at=600.0)]))
    assert next(iter(past.again(700.0, 0.0))).key == "red/a001#1"


@pytest.mark.parametrize(("now", "jobs"), [(10.0, 0), (11.0, 4)])
def test_arrivals_that_span_no_time_are_not_repeated(now: float, jobs: int) -> None:
    past = past_of(*(make_job(f"j{n}", at=10.0) for n in range(8)))
    assert len(list(islice(past.again(now, 0.0), 4))) == jobs


def test_a_repeated_stretch_of_arrivals_begins_now() -> None:
    past = past_of(*(make_job(f"j{n}", at=1_000.0 + 10 * n) for n in range(10)))
    assert [job.submitted_at for job in islice(past.again(1_100.0, 0.5), 6)] == [1_100.0 + 10 * n for n in range(6)]
