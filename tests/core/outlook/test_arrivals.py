"""Recent arrivals, repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from random import Random

import pytest

from cotenant.core.model.objects import Job
from cotenant.core.outlook.arrivals import PastArrivals
from tests.support.clusters import make_job, make_placement, make_snapshot


def past_of(*jobs: Job) -> PastArrivals:
    past = PastArrivals()
    past.observe(make_snapshot(nodes=[], queues=[], jobs=list(jobs)))
    return past


def always_from(part: float) -> Callable[[int], float]:
    return lambda _: part


def drawn(seed: int) -> Callable[[int], float]:
    dice = Random(seed)
    return lambda _: dice.random()


def test_a_stretch_of_recent_arrivals_is_repeated_from_any_of_them() -> None:
    """After the last arrival it goes on with the first, as long after it as the last one is ago."""
    past = past_of(*(make_job(f"j{n}", at=10.0 * n) for n in range(9)))

    again = [(job.key, job.submitted_at) for job in islice(past.again(100.0, always_from(0.8)), 4)]

    assert again == [("red/j7#0", 100.0), ("red/j8#0", 110.0), ("red/j0#0", 130.0), ("red/j1#0", 140.0)]


def test_a_stretch_is_followed_by_another_that_is_drawn_anew() -> None:
    past = past_of(*(make_job(f"j{n}", at=10.0 * n) for n in range(100)))

    names = [job.key for job in islice(past.again(1_000.0, drawn(0)), 80)]
    numbers = [int(name.removeprefix("red/j").partition("#")[0]) for name in names]
    breaks = [place for place, (one, other) in enumerate(pairwise(numbers), start=1) if other != (one + 1) % 100]
    assert breaks == list(range(8, 80, 8))
    assert len(set(names)) == 80
    assert names != [job.key for job in islice(past.again(1_000.0, drawn(1)), 80)]


def test_plays_differ_in_how_much_comes() -> None:
    """Jobs come one a second, and then one in 100 s. So a play has few or many of them in the next 1,000 s."""
    times = [*range(100), *range(100, 10_100, 100)]
    past = past_of(*(make_job(f"j{n:03}", at=float(at)) for n, at in enumerate(times)))

    def arrivals(seed: int) -> int:
        return next(n for n, job in enumerate(past.again(10_100.0, drawn(seed))) if job.submitted_at >= 11_100.0)

    found = sorted(arrivals(number) for number in range(11))
    assert found[0] <= 15
    assert found[-1] >= 40


def test_the_same_draws_give_the_same_arrivals() -> None:
    past = past_of(*(make_job(f"j{n}", at=10.0 * n) for n in range(20)))

    assert list(islice(past.again(200.0, drawn(3)), 50)) == list(islice(past.again(200.0, drawn(3)), 50))


def test_too_few_arrivals_are_not_repeated() -> None:
    assert list(past_of(*(make_job(f"j{n}", at=10.0 * n) for n in range(7))).again(100.0, drawn(0))) == []


def test_only_the_last_arrivals_of_a_long_history_are_kept() -> None:
    past = past_of(*(make_job(f"j{n:03}", at=float(n)) for n in range(600)))

    assert next(past.again(600.0, always_from(0.0))).key == "red/j088#0"


def test_a_repeated_job_arrives_as_it_first_arrived() -> None:
    bare = [make_job(f"j{n}", at=10.0 + n) for n in range(8)]
    placed = make_placement(("n1", [[0]]))
    ran = [
        replace(job, placement=placed, admitted_at=20.0, backfilled_until=90.0, evicting=True, ran_s=7) for job in bare
    ]
    again = list(islice(past_of(*ran).again(100.0, always_from(0.0)), 8))
    assert again == [
        replace(job, key=f"{job.key}#0", uid=f"{job.uid}#0", submitted_at=100.0 + n) for n, job in enumerate(bare)
    ]


def test_the_oldest_arrivals_are_forgotten_first() -> None:
    past = past_of(*(make_job(f"a{n:03}", at=float(n)) for n in range(512)))
    past.observe(make_snapshot(nodes=[], queues=[], jobs=[make_job("b", at=600.0)]))
    assert next(past.again(700.0, always_from(0.0))).key == "red/a001#0"


@pytest.mark.parametrize(("now", "jobs"), [(10.0, 0), (11.0, 4)])
def test_arrivals_that_span_no_time_are_not_repeated(now: float, jobs: int) -> None:
    past = past_of(*(make_job(f"j{n}", at=10.0) for n in range(8)))
    assert len(list(islice(past.again(now, drawn(0)), 4))) == jobs


def test_no_arrival_comes_before_the_one_before_it_if_a_clock_is_ahead() -> None:
    past = past_of(*(make_job(f"j{n}", at=10.0 * n) for n in range(8)), make_job("early", at=500.0))
    times = [job.submitted_at for job in islice(past.again(100.0, drawn(0)), 40)]
    assert times == sorted(times)
