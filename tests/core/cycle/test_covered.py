"""Jobs that a guarantee covers: by priority and submission, minimums before surplus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.cycle.covered import CoveredJobs
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.model.objects import Job, Quota, TenantQueue
from cotenant.core.snapshot.accounting import Accounting
from tests.support.clusters import make_job, make_node, make_placement, make_queue

NODES = [make_node("n1", gpus=8)]


def running(name: str, columns: list[int], *, at: float, least: int, queue: str = "red", **changes: Any) -> Job:
    placement = make_placement(("n1", [[column] for column in columns]))
    return make_job(name, queue=queue, workers=(least, 8), placement=placement, at=at, admitted_at=-at, **changes)


def covered(queues: list[TenantQueue], jobs: list[Job], queue: str) -> set[tuple[str, bool]]:
    counted = Accounting.of(NODES, queues, jobs)
    jobs_of = RunningJobs(counted.running, counted.allocations, counted.tree).covered
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
def test_minimums_are_covered_oldest_first_and_then_surplus(guaranteed: int, want: set[tuple[str, bool]]) -> None:
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


def test_a_priority_above_the_queues_bound_counts_as_the_bound() -> None:
    jobs = [running("old", [0], at=1.0, least=1), running("urgent", [1], at=2.0, least=1, priority=1)]

    assert covered([make_queue("red", guaranteed=1, max_priority=0)], jobs, "red") == {("red/old", False)}


def test_a_job_covered_by_a_child_queue_is_covered_by_the_parent_first() -> None:
    queues = [
        make_queue("top", guaranteed=1),
        make_queue("red", guaranteed=1, parent="top"),
        make_queue("blue", guaranteed=0, parent="top"),
    ]
    jobs = [running("own", [0], at=2.0, least=1), running("urgent", [1], at=1.0, least=1, queue="blue", priority=9)]

    assert covered(queues, jobs, "top") == {("red/own", False)}


class OneByOne(CoveredJobs):
    """Judges jobs one by one, without the sum of what they hold."""

    def covers_all(self, queue: int) -> bool:
        return False


HELD = st.lists(
    st.tuples(st.sampled_from(("top", "red", "blue")), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2)),
    max_size=6,
)


@given(HELD, st.tuples(st.integers(0, 12), st.integers(0, 8), st.integers(0, 8)), st.booleans())
def test_the_shortcut_covers_the_same_jobs_as_the_walk(
    held: list[tuple[str, int, int, int]], guaranteed: tuple[int, int, int], narrow: bool
) -> None:
    queues = [
        make_queue("top", guaranteed=guaranteed[0]),
        make_queue("red", guaranteed=guaranteed[1], parent="top"),
        make_queue("blue", guaranteed=guaranteed[2], parent="top"),
    ]
    if narrow:
        line = replace(queues[1].quotas[0], gpu_class="H100", guaranteed=2_000)
        queues[1] = replace(queues[1], quotas=(*queues[1].quotas, line))
    jobs, column = [], 0
    for number, (queue, least, workers, priority) in enumerate(held):
        columns = list(range(column, column + workers))
        jobs.append(running(f"j{number}", columns, at=number, least=least, queue=queue, priority=priority))
        column += workers
    counted = Accounting.of([make_node("n1", gpus=24)], queues, jobs)
    of_all = RunningJobs(counted.running, counted.allocations, counted.tree)
    for index in range(3):
        one_by_one = OneByOne(of_all.tree, of_all.allocations, of_all.of_queue)
        assert of_all.covered.of(index) == one_by_one.of(index)


def test_a_queue_that_holds_no_more_than_its_guarantee_is_covered_whole() -> None:
    counted = Accounting.of(NODES, [make_queue("red", guaranteed=3)], [running("a", [0, 1], at=1.0, least=2)])
    of_all = RunningJobs(counted.running, counted.allocations, counted.tree)
    assert of_all.covered.covers_all(0)
    assert of_all.covered is of_all.covered


@pytest.mark.parametrize(
    ("milli", "covers"),
    [(2_001, True), (2_000, True), (1_999, False), (0, False)],
    ids=["more", "exactly that", "a thousandth less", "nothing"],
)
def test_a_guarantee_equal_to_what_jobs_hold_covers_all_of_them(milli: int, covers: bool) -> None:
    jobs = [make_job(name, placement=make_placement(("n1", [[gpu]])), at=gpu) for gpu, name in enumerate("ab")]
    queue = make_queue("red", quotas=(Quota(guaranteed=milli),))
    counted = Accounting.of(NODES, [queue], jobs)
    running = RunningJobs(counted.running, counted.allocations, counted.tree)

    assert (len(running.covered.of(0)) == 2) is covers
    assert running.covered.covers_all(0) is covers


def test_with_surplus_workers_the_shortcut_gives_no_answer() -> None:
    counted = Accounting.of(NODES, [make_queue("red", guaranteed=8)], [running("a", [0, 1], at=1.0, least=1)])

    assert not RunningJobs(counted.running, counted.allocations, counted.tree).covered.covers_all(0)


@pytest.mark.parametrize(("milli", "covers"), [(1_000, True), (999, False)])
def test_a_guarantee_equal_to_what_the_first_job_holds_covers_it(milli: int, covers: bool) -> None:
    jobs = [make_job(name, placement=make_placement(("n1", [[gpu]])), at=gpu) for gpu, name in enumerate("ab")]
    queue = make_queue("red", quotas=(Quota(guaranteed=milli),))

    assert covered([queue], jobs, "red") == ({("red/a", False)} if covers else set())
