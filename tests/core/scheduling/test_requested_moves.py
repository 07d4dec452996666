"""Jobs that an administrator moves: each leaves when its new place is kept for it, and not before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Evict, EvictionKind
from cotenant.core.policy import DEFAULT
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue

NODES = [make_node("n1"), make_node("n2"), make_node("slow", gpu_class="L4")]
OFF: dict[str, Any] = {"excluded_nodes": frozenset({"n1"})}
QUEUE = make_queue("red", guaranteed=6)


def running(name: str, node: str, columns: list[list[int]], **changes: Any) -> Job:
    job = make_job(name, workers=len(columns), placement=make_placement((node, columns)), **changes)
    return replace(job, admitted_at=0.0)


def asked(job: Job, **changes: Any) -> Job:
    return replace(job, move_asked=True, **changes)


def where(toy: ToyCluster, key: str = "red/moves") -> list[tuple[str, int]]:
    placement = toy.jobs[key].placement
    return [(part.node, len(part.ranks)) for part in placement.nodes] if placement else []


@pytest.mark.parametrize(
    ("changes", "lands_on"),
    [
        (OFF, {"n2"}),
        ({"only_nodes": frozenset({"slow"})}, {"slow"}),
        ({"gpu": replace(make_job("x").gpu, classes=("L4",))}, {"slow"}),
        ({"only_nodes": frozenset({"n1", "n2"})}, {"n1"}),
        ({"only_nodes": frozenset({"nowhere"})}, {"n1"}),
        ({"gpu": replace(make_job("x").gpu, classes=("H100",))}, {"n1"}),
    ],
    ids=[
        "off a node",
        "to a node",
        "to a class",
        "lies there already",
        "there is no such node",
        "of that class already",
    ],
)
def test_a_job_moves_to_the_nodes_it_was_asked_to_and_otherwise_stays(
    changes: dict[str, Any], lands_on: set[str]
) -> None:
    toy = ToyCluster(NODES, [QUEUE], [asked(running("moves", "n1", [[0], [1]]), **changes)])
    toy.settle()
    assert {node for node, _ in where(toy)} == lands_on
    evictions = [one for one in toy.history if isinstance(one, Evict)]
    assert len(evictions) == (lands_on != {"n1"})


def test_a_moved_job_keeps_its_new_place_while_it_leaves_and_protection_does_not_stop_the_move() -> None:
    toy = ToyCluster(NODES, [QUEUE], [asked(running("moves", "n1", [[0], [1]]), **OFF)], policy=DEFAULT)
    plan = toy.cycle()
    (eviction,) = plan.actions
    assert isinstance(eviction, Evict)
    assert (eviction.job, eviction.kind, eviction.in_favour_of) == ("red/moves", EvictionKind.MOVED, None)
    assert eviction.message == "An administrator moves it. Its new place is reserved, with workers on n2 (2)."
    toy.observe(make_job("quick", workers=2, gpu=replace(make_job("x").gpu, classes=("H100",)), priority=9))
    assert not [one for one in toy.cycle().actions if isinstance(one, Admit)]  # n2 is kept, n1 is not free yet
    toy.finish_evictions()
    toy.settle()
    assert (where(toy), where(toy, "red/quick")) == ([("n2", 2)], [("n1", 2)])


def test_a_job_to_be_moved_waits_until_there_is_a_place() -> None:
    toy = ToyCluster(
        NODES[:2], [QUEUE], [asked(running("moves", "n1", [[0], [1]]), **OFF), running("other", "n2", [[0]])]
    )
    toy.settle()
    assert (toy.history, where(toy)) == ([], [("n1", 2)])
    toy.end("red/other")
    toy.settle()
    assert where(toy) == [("n2", 2)]


def test_an_elastic_job_moves_with_its_minimum_of_workers() -> None:
    elastic = asked(replace(running("moves", "n1", [[0], [1]]), workers_min=1), **OFF)
    toy = ToyCluster(NODES[:2], [QUEUE], [elastic, running("other", "n2", [[0]])])
    toy.settle()
    assert where(toy) == [("n2", 1)]


@pytest.mark.parametrize("changes", [{"preemptible": False}, {"evicting": True}, {"move_asked": False}])
def test_a_job_that_may_not_be_moved_is_left_alone(changes: dict[str, Any]) -> None:
    job = replace(asked(running("moves", "n1", [[0], [1]]), **OFF), **changes)
    plan = ToyCluster(NODES, [QUEUE], [job]).cycle()
    assert plan.actions == ()


@given(
    held=st.lists(st.sampled_from(["n1", "n2", "slow"]), min_size=1, max_size=3, unique=True),
    off=st.frozensets(st.sampled_from(["n1", "n2", "slow"]), max_size=3),
    to=st.frozensets(st.sampled_from(["n1", "n2", "slow"]), max_size=3),
)
def test_each_moved_job_starts_again_and_moves_once(held: list[str], off: frozenset[str], to: frozenset[str]) -> None:
    jobs = [asked(running(f"on-{node}", node, [[0], [1]]), excluded_nodes=off, only_nodes=to) for node in held]
    toy = ToyCluster(NODES, [QUEUE], jobs)
    toy.settle()
    evicted = [one.job for one in toy.history if isinstance(one, Evict)]
    assert len(evicted) == len(set(evicted))
    assert all(job.placement is not None for job in toy.jobs.values())
    for key in evicted:
        nodes = {node for node, _ in where(toy, key)}
        assert not nodes & off
        assert not to or nodes <= to
