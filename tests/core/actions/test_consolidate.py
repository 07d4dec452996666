"""Small jobs that move aside for a job that cannot start otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Evict, Resize
from cotenant.testing import UNPROTECTED, ToyCluster, make_job, make_node, make_placement, make_queue


def steps(toy: ToyCluster) -> list[tuple[str, str]]:
    words = {Admit: "admit", Resize: "resize"}
    return [
        (action.kind.value if isinstance(action, Evict) else words[type(action)], action.job) for action in toy.history
    ]


def running(name: str, column: int | list[list[int]], *, at: float = 0.0, node: str = "n1", **changes: object) -> Job:
    workers = [[column]] if isinstance(column, int) else column
    job = make_job(name, placement=make_placement((node, workers)), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=at, workers_min=changes.get("workers_min", job.workers_min))  # type: ignore[arg-type]


def test_small_jobs_move_aside_where_their_queue_allows_it() -> None:
    nodes = [make_node("n1"), make_node("n2")]
    queues = [replace(make_queue("red", guaranteed=4), consolidation=True)]
    jobs = [running("a", 0, node="n1", at=1.0), running("b", 0, node="n2", at=2.0)]
    toy = ToyCluster(nodes, queues, [*jobs, make_job("pair", gpus=2, at=3)])
    toy.now = 100.0
    toy.settle()

    assert [kind for kind, _ in steps(toy)] == ["Moved", "admit", "admit"]
    assert all(job.placement for job in toy.jobs.values())

    still = ToyCluster(nodes, [make_queue("red", guaranteed=4)], [*jobs, make_job("pair", gpus=2, at=3)])
    still.settle()
    assert steps(still) == []


def moved(*jobs: Job, nodes: int = 2, waits: Job, now: float = 1_000.0, **changes: object) -> list[str]:
    """Jobs that one cycle moves aside."""
    queues = [replace(make_queue("red", guaranteed=8), consolidation=True)]
    toy = ToyCluster([make_node(f"n{number}") for number in range(1, nodes + 1)], queues, [*jobs, waits], **changes)  # type: ignore[arg-type]
    toy.now = now
    toy.cycle()
    return [action.job for action in toy.history if isinstance(action, Evict)]


PAIR = make_job("pair", gpus=2, at=3)


@pytest.mark.parametrize(("ends_in_s", "moves"), [(80, ["red/a"]), (20, [])], ids=["a longer wait", "a shorter wait"])
def test_a_job_moves_where_the_wait_that_it_saves_is_longer_than_the_work_that_it_loses(
    ends_in_s: int, moves: list[str]
) -> None:
    """80 s of one GPU would be lost; the beneficiary asks for two, and the others say when they end."""
    now, begun = 1_001.0, 921.0
    jobs = [
        running("a", 0, node="n1", at=begun),
        running("b", 0, node="n2", at=begun - 1, expected_runtime_s=int(now - begun + 1) + ends_in_s),
    ]

    assert moved(*jobs, waits=PAIR) == moves


def test_fewest_jobs_of_the_cheapest_node_move() -> None:
    """n2 has the younger jobs, and one of them is enough."""
    jobs = [
        running("old", 0, node="n1", at=10.0),
        running("young", 0, node="n2", at=900.0),
        running("third", 0, node="n3", at=20.0),
    ]

    assert moved(*jobs, nodes=3, waits=PAIR) == ["red/young"]


def test_no_job_moves_twice_in_a_cycle() -> None:
    """Two kinds of pairs wait, and each of them needs one more node."""
    jobs = [running(name, 0, node=f"n{number}", at=100.0 * number) for number, name in enumerate("abcd", 1)]
    other = replace(make_job("other", gpus=2, at=4), cpu_milli=1)

    assert moved(*jobs, PAIR, nodes=4, waits=other) == ["red/c", "red/d"]


@pytest.mark.parametrize(("most", "moves"), [(1, 1), (2, 2), (4, 2)])
def test_a_cycle_moves_no_more_jobs_than_the_policy_allows(most: int, moves: int) -> None:
    """Two kinds of pairs wait, each for one job to move."""
    jobs = [running(name, 0, node=f"n{number}", at=100.0 * number) for number, name in enumerate("abcd", 1)]
    other = replace(make_job("other", gpus=2, at=4), cpu_milli=1)

    assert len(moved(*jobs, PAIR, nodes=4, waits=other, policy=replace(UNPROTECTED, moves=most))) == moves


@pytest.mark.parametrize(("most", "moves"), [(1, []), (2, ["red/a", "red/b"])])
def test_of_one_node_no_more_jobs_move_than_the_policy_allows(most: int, moves: list[str]) -> None:
    """The pair can only have the node of two, which both have to leave."""
    queues = [replace(make_queue("red", guaranteed=8), consolidation=True)]
    jobs = [running("a", 0, at=1.0), running("b", 1, at=2.0), running("c", 0, node="n2", at=3.0, cpu_milli=10)]
    nodes = [make_node("n1", gpus=2, cpu_milli=100), make_node("n2", gpus=3, cpu_milli=10)]
    pair = make_job("pair", gpus=2, at=4, cpu_milli=50)
    toy = ToyCluster(nodes, queues, [*jobs, pair], replace(UNPROTECTED, moves=most))
    toy.now = 1_000.0
    toy.cycle()

    assert [action.job for action in toy.history if isinstance(action, Evict)] == moves
