"""Jobs that a guarantee covers: by priority and submission, minimums before surplus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.actions.covered import CoveredJobs
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.snapshot.accounting import Accounting
from cotenant.testing import make_job, make_node, make_placement, make_queue

NODES = [make_node("n1", gpus=8)]


def running(name: str, columns: list[int], *, at: float, least: int, queue: str = "red", **changes: Any) -> Job:
    placement = make_placement(("n1", [[column] for column in columns]))
    return make_job(name, queue=queue, workers=(least, 8), placement=placement, at=at, admitted_at=-at, **changes)


def covered(queues: list[TenantQueue], jobs: list[Job], queue: str) -> set[tuple[str, bool]]:
    counted = Accounting.of(NODES, queues, jobs)
    jobs_of = CoveredJobs(RunningJobs(counted.running, counted.allocations, counted.tree))
    return set(jobs_of.of(counted.tree.index[queue]))


@pytest.mark.parametrize(
    ("guaranteed", "want"),
    [
        (0, set()),
        (1, {("red/small", False)}),
        (2, {("red/old", False)}),
        (3, {("red/old", False), ("red/small", False)}),
        (4, {("red/old", False), ("red/small", False), ("red/old", True)}),
        (6, {("red/old", False), ("red/small", False), ("red/old", True), ("red/small", True)}),
    ],
)
def test_minimums_are_covered_from_the_oldest_submission_on_and_then_surplus(
    guaranteed: int, want: set[tuple[str, bool]]
) -> None:
    jobs = [running("small", [3, 4, 5], at=2.0, least=1), running("old", [0, 1, 2], at=1.0, least=2)]

    assert covered([make_queue("red", guaranteed=guaranteed)], jobs, "red") == want


def test_a_job_counts_against_every_line_that_matches() -> None:
    queue = make_queue("red", guaranteed=4)
    narrow = replace(queue.quotas[0], gpu_class="H100", guaranteed=1_000)
    jobs = [running("old", [0, 1], at=1.0, least=2), running("new", [2], at=2.0, least=1)]

    assert covered([replace(queue, quotas=(*queue.quotas, narrow))], jobs, "red") == {("red/new", False)}


def test_jobs_of_the_whole_subtree_are_covered_together() -> None:
    queues = [make_queue("top", guaranteed=1), make_queue("red", guaranteed=0, parent="top")]
    jobs = [running("new", [1], at=2.0, least=1, queue="top"), running("old", [0], at=1.0, least=1)]

    assert covered(queues, jobs, "top") == {("red/old", False)}


def test_a_guarantee_of_another_class_covers_nothing() -> None:
    jobs = [running("old", [0], at=1.0, least=1)]

    assert covered([make_queue("red", guaranteed=4, gpu_class="A100")], jobs, "red") == set()


def test_priority_goes_before_age() -> None:
    jobs = [running("old", [0], at=1.0, least=1), running("urgent", [1], at=2.0, least=1, priority=1)]

    assert covered([make_queue("red", guaranteed=1)], jobs, "red") == {("red/urgent", False)}


def test_a_priority_above_what_the_queue_allows_counts_as_the_highest_that_it_does() -> None:
    jobs = [running("old", [0], at=1.0, least=1), running("urgent", [1], at=2.0, least=1, priority=1)]

    assert covered([make_queue("red", guaranteed=1, max_priority=0)], jobs, "red") == {("red/old", False)}


def test_who_is_covered_below_is_covered_above_before_all_others() -> None:
    queues = [
        make_queue("top", guaranteed=1),
        make_queue("red", guaranteed=1, parent="top"),
        make_queue("blue", guaranteed=0, parent="top"),
    ]
    jobs = [running("own", [0], at=2.0, least=1), running("urgent", [1], at=1.0, least=1, queue="blue", priority=9)]

    assert covered(queues, jobs, "top") == {("red/own", False)}
