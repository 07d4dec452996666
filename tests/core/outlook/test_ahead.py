"""Who is before a waiting job, in words."""

from __future__ import annotations

from cotenant.core.outlook.ahead import ahead_of
from cotenant.core.outlook.estimates import Estimate
from cotenant.testing import make_job, make_snapshot


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
        "Thought to start before it: 2 jobs of its queue: red/old (older), red/urgent (higher priority); 1 job of queue"
        " blue. Between queues the guarantee decides, then who borrows less."
    )
    assert said["red/last"].startswith(
        "Thought to start before it: 3 jobs of its queue: red/me (older), red/old (older), red/urgent (higher priority)"
    )


def test_a_job_of_lower_priority_or_one_that_came_later_fits_into_a_gap() -> None:
    jobs = [make_job("low", at=1, priority=0), make_job("late", at=9, priority=5), make_job("me", at=5, priority=5)]
    estimates = {f"red/{name}": Estimate(0.0, 1.0, 2.0, n) for n, name in enumerate(("low", "late", "me"), start=1)}
    assert ahead_of(make_snapshot(nodes=[], queues=[], jobs=jobs), estimates)["red/me"] == (
        "Thought to start before it: 2 jobs of its queue: red/late (fits into a gap), red/low (fits into a gap)."
    )
