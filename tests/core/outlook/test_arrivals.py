"""Recent arrivals, repeated."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from cotenant.core.model.objects import Job
from cotenant.core.outlook.arrivals import PastArrivals
from cotenant.testing import make_job, make_placement, make_snapshot


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


def past_of(*jobs: Job) -> PastArrivals:
    past = PastArrivals()
    past.observe(make_snapshot(nodes=[], queues=[], jobs=list(jobs)))
    return past


def test_a_job_comes_again_as_it_came_whatever_has_become_of_it() -> None:
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


def test_the_oldest_are_forgotten_first() -> None:
    past = past_of(*(make_job(f"a{n:03}", at=float(n)) for n in range(512)))
    past.observe(make_snapshot(nodes=[], queues=[], jobs=[make_job("b", at=600.0)]))
    assert next(iter(past.again(700.0, 0.0))).key == "red/a001#1"


@pytest.mark.parametrize(("now", "jobs"), [(10.0, 0), (11.0, 4)])
def test_a_past_without_any_time_does_not_come_again(now: float, jobs: int) -> None:
    past = past_of(*(make_job(f"j{n}", at=10.0) for n in range(8)))
    assert len(list(islice(past.again(now, 0.0), 4))) == jobs


def test_a_part_of_a_past_that_began_long_ago_begins_now() -> None:
    past = past_of(*(make_job(f"j{n}", at=1_000.0 + 10 * n) for n in range(10)))
    assert [job.submitted_at for job in islice(past.again(1_100.0, 0.5), 6)] == [1_100.0 + 10 * n for n in range(6)]
