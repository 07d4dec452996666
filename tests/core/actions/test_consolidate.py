"""Small jobs move aside for a job that cannot start otherwise."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from cotenant.core.actions.consolidate import Consolidation, beneficiaries
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Evict, Reason, Refusal, Resize
from tests.support.clusters import (
    UNPROTECTED,
    ToyCluster,
    make_job,
    make_node,
    make_placement,
    make_queue,
    make_snapshot,
)

NOW = 1_000.0


def steps(toy: ToyCluster) -> list[tuple[str, str]]:
    words = {Admit: "admit", Resize: "resize"}
    return [
        (action.kind.value if isinstance(action, Evict) else words[type(action)], action.job) for action in toy.history
    ]


def running(name: str, column: int | list[list[int]], *, at: float = 0.0, node: str = "n1", **changes: object) -> Job:
    workers = [[column]] if isinstance(column, int) else column
    job = make_job(name, placement=make_placement((node, workers)), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=at, workers_min=changes.get("workers_min", job.workers_min))  # type: ignore[arg-type]


def test_small_jobs_move_aside_only_if_their_queue_allows_it() -> None:
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


@pytest.mark.parametrize(("ends_in_s", "moves"), [(80, ["red/a"]), (71, ["red/a"]), (70, []), (20, [])])
def test_a_job_moves_if_the_saved_wait_is_longer_than_the_lost_work(ends_in_s: int, moves: list[str]) -> None:
    """80 s of one GPU would be lost; the beneficiary asks for two, and the others say when they end."""
    now, begun = 1_001.0, 921.0
    jobs = [
        running("a", 0, node="n1", at=begun),
        running("b", 0, node="n2", at=begun - 1, expected_runtime_s=int(now - begun + 1) + ends_in_s),
    ]

    assert moved(*jobs, waits=PAIR) == moves


def test_as_few_jobs_as_possible_move_and_from_the_cheapest_node() -> None:
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
def test_no_more_jobs_move_off_one_node_than_the_policy_allows(most: int, moves: list[str]) -> None:
    """The pair fits only on the node of two GPUs, which two jobs would have to leave."""
    queues = [replace(make_queue("red", guaranteed=8), consolidation=True)]
    jobs = [running("a", 0, at=1.0), running("b", 1, at=2.0), running("c", 0, node="n2", at=3.0, cpu_milli=10)]
    nodes = [make_node("n1", gpus=2, cpu_milli=100), make_node("n2", gpus=3, cpu_milli=10)]
    pair = make_job("pair", gpus=2, at=4, cpu_milli=50)
    toy = ToyCluster(nodes, queues, [*jobs, pair], replace(UNPROTECTED, moves=most))
    toy.now = 1_000.0
    toy.cycle()

    assert [action.job for action in toy.history if isinstance(action, Evict)] == moves


MOVES = make_queue("red", guaranteed=8, consolidation=True)
STAYS = make_queue("blue", guaranteed=8)


@pytest.mark.parametrize(
    ("beside", "moves"),
    [
        pytest.param({}, ["red/a"], id="who lies on its node alone"),
        pytest.param({"queue": "blue"}, [], id="nobody of a queue that has not asked for it"),
        pytest.param({"queue": "gone"}, [], id="nor of none"),
        pytest.param({"preemptible": False}, [], id="nobody who cannot be evicted"),
        pytest.param({"evicting": True}, [], id="nobody who leaves anyway"),
        pytest.param({"resizing_from": make_placement(("n1", [[0]]))}, [], id="nobody who is being resized"),
    ],
)
def test_for_a_pair_of_workers_that_needs_a_whole_node_moves(beside: dict[str, Any], moves: list[str]) -> None:
    """The pair finds no place where jobs leave anyway: that node has no CPU for it."""
    waits = make_job("pair", queue="green", gpus=2, at=3, cpu_milli=60_000)
    jobs = [
        running("a", 0, node="n1", at=1.0, cpu_milli=10_000, **beside),
        running("fixed", 0, node="n2", queue="blue"),
    ]
    nodes = [make_node("n1"), make_node("n2", cpu_milli=50_000)]
    toy = ToyCluster(nodes, [MOVES, STAYS, make_queue("green", guaranteed=0)], [*jobs, waits])
    toy.now = 1_000.0
    before = set() if not beside.get("evicting") else {"red/a"}
    toy.cycle()

    assert [action.job for action in toy.history if isinstance(action, Evict) and action.job not in before] == moves


def test_a_gang_on_two_nodes_stays() -> None:
    gang = make_job("gang", workers=2, placement=make_placement(("n1", [[0]]), ("n2", [[0]])), admitted_at=1.0)

    assert moved(gang, nodes=3, waits=make_job("large", gpus=2, workers=2, at=3)) == []


def test_the_places_of_the_beneficiary_and_of_the_moved_jobs_are_held() -> None:
    toy = ToyCluster(
        [make_node("n1"), make_node("n2")],
        [MOVES],
        [running("a", 0, node="n1", at=1.0), running("b", 0, node="n2", at=900.0), PAIR],
    )
    toy.now = 1_000.0

    assert toy.cycle().nominations == {
        "red/pair": make_placement(("n2", [[0, 1]])),
        "red/b": make_placement(("n1", [[1]])),
    }


def test_one_entry_of_each_kind_that_waits_for_gpus_is_helped() -> None:
    def entry(name: str, request: object, reason: Reason | None) -> tuple[Entry, Request]:
        refusal = None if reason is None else Refusal(reason=reason, message="")
        return Entry(make_job(name), reason=refusal), request  # type: ignore[return-value]

    one, other = object(), object()
    waiting = [
        entry("no-reason", other, None),
        entry("quota", other, Reason.WAITING_FOR_QUOTA),
        entry("first", one, Reason.WAITING_FOR_GPUS),
        entry("equal", one, Reason.WAITING_FOR_GPUS),
        entry("second", other, Reason.WAITING_FOR_GPUS),
    ]

    assert [(found.job.key, request) for found, request in beneficiaries(waiting, 9)] == [
        ("red/first", one),
        ("red/second", other),
    ]
    assert len(beneficiaries(waiting, 1)) == 1


@pytest.mark.parametrize(
    ("consolidation", "until"),
    [(False, inf), (True, NOW)],
    ids=["nobody may move: the answer holds", "somebody may: it is of this moment"],
)
def test_the_answer_whether_a_move_helps_holds_until(consolidation: bool, until: float) -> None:
    queue = replace(make_queue("red", guaranteed=4), consolidation=consolidation)
    jobs = [running("a", 0), PAIR]
    cycle = Cycle.open(make_snapshot(nodes=[make_node("n1")], queues=[queue], jobs=jobs, now=NOW), UNPROTECTED)
    resolver = RequestResolver(cycle.inventory, cycle.tree)
    request = resolver.resolve(PAIR)
    assert isinstance(request, Request)
    moves = Consolidation(cycle, resolver.resolve)
    cycle.moment.until = inf
    assert moves.find_move(None, request, cycle.accounts.open_after_evictions) is None
    assert cycle.moment.until == until
