"""Jobs before a waiting job, in words."""

from __future__ import annotations

import pytest

from cotenant.core.outlook.ahead import ahead_of
from cotenant.core.outlook.estimates import Estimate
from tests.support.clusters import make_job, make_snapshot


def test_jobs_of_the_same_queue_are_named_with_the_reason_and_those_of_others_counted() -> None:
    jobs = [
        make_job("urgent", at=3, priority=5),
        make_job("old", at=1),
        make_job("theirs", queue="blue", at=1),
        make_job("me", at=2),
        make_job("last", at=4),
    ]
    order = ("red/urgent", "blue/theirs", "red/old", "red/me", "red/last")
    estimates = {key: Estimate(0.0, 1.0, 2.0, position) for position, key in enumerate(order, start=1)}

    said = ahead_of(make_snapshot(nodes=[], queues=[], jobs=jobs), estimates)

    assert said["red/urgent"] == "It is the next to start."
    assert said["red/me"] == (
        "Expected to start before it: 2 jobs of its queue: red/old (it is older), red/urgent (it has a higher"
        " priority); 1 job of queue blue. Between queues the guarantee decides, then which queue borrows less."
    )
    assert said["red/last"].startswith(
        "Expected to start before it: 3 jobs of its queue: red/me (it is older), red/old (it is older), red/urgent (it"
        " has a higher priority)"
    )


def test_a_job_of_lower_priority_or_younger_age_goes_before_only_into_a_gap() -> None:
    jobs = [make_job("low", at=1, priority=0), make_job("late", at=9, priority=5), make_job("me", at=5, priority=5)]
    estimates = {f"red/{name}": Estimate(0.0, 1.0, 2.0, n) for n, name in enumerate(("low", "late", "me"), start=1)}
    assert ahead_of(make_snapshot(nodes=[], queues=[], jobs=jobs), estimates)["red/me"] == (
        "Expected to start before it: 2 jobs of its queue: red/late (it fits into a gap), red/low (it fits into a gap)."
    )


@pytest.mark.parametrize(
    ("before", "named"),
    [
        (3, "3 jobs of its queue: red/j2 (it is older), red/j1 (it is older), red/j0 (it is older)."),
        (4, "4 jobs of its queue: red/j3 (it is older), red/j2 (it is older), red/j1 (it is older) and 1 more."),
        (6, "6 jobs of its queue: red/j5 (it is older), red/j4 (it is older), red/j3 (it is older) and 3 more."),
    ],
)
def test_the_last_three_before_it_are_named_and_the_others_counted(before: int, named: str) -> None:
    jobs = [make_job(f"j{number}", at=number) for number in range(before + 1)]
    snapshot = make_snapshot(nodes=[], queues=[], jobs=jobs)
    estimates = {job.key: Estimate(0.0, 1.0, 2.0, number + 1) for number, job in enumerate(jobs)}

    assert ahead_of(snapshot, estimates)[f"red/j{before}"] == f"Expected to start before it: {named}"
