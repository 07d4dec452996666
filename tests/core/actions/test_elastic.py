"""Elastic jobs that grow into what is left, and shrink before any job is evicted."""

from __future__ import annotations

import pytest

from cotenant.core.actions.elastic import grow, growth_order
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Placement, Topology, TopologyMode
from cotenant.core.model.plan import Admit, Evict, Resize
from cotenant.core.placement import BestFit
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot


def steps(toy: ToyCluster) -> list[tuple[str, str]]:
    words = {Admit: "admit", Resize: "resize"}
    return [
        (action.kind.value if isinstance(action, Evict) else words[type(action)], action.job) for action in toy.history
    ]


def test_an_elastic_job_grows_into_idle_room_and_shrinks_before_anyone_is_evicted() -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=4)],
        [make_queue("red", guaranteed=4), make_queue("blue", guaranteed=0)],
        [make_job("elastic", workers=(1, 4), at=1)],
    )
    toy.settle()
    grown = toy.jobs["red/elastic"].placement
    toy.observe(make_job("new", at=2, gpus=2))
    toy.settle()
    shrunk = toy.jobs["red/elastic"].placement

    assert grown is not None
    assert grown.workers == 4
    assert shrunk is not None
    assert shrunk.workers == 2
    assert [kind for kind, _ in steps(toy)] == ["admit", "resize", "admit"]


def test_elastic_jobs_grow_by_priority_then_age_then_key_and_jobs_of_a_fixed_size_do_not() -> None:
    jobs = [
        make_job("b", workers=(1, 2), at=1.0),
        make_job("a", workers=(1, 2), at=1.0),
        make_job("old", workers=(1, 2), at=0.0),
        make_job("vip", workers=(1, 2), at=9.0, priority=1),
        make_job("fixed", workers=2, priority=9),
    ]

    assert [job.key for job in growth_order(jobs)] == ["red/vip", "red/old", "red/a", "red/b"]


@pytest.mark.parametrize(
    ("preemptible", "guaranteed", "workers"),
    [
        pytest.param(True, 2, 4, id="as far as there is room, if it may be evicted"),
        pytest.param(False, 4, 4, id="inside the guarantee, if it may not"),
        pytest.param(False, 2, 2, id="and no further than its guarantee goes"),
    ],
)
def test_an_elastic_job_grows(preemptible: bool, guaranteed: int, workers: int) -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=4)],
        [make_queue("red", guaranteed=guaranteed)],
        [make_job("elastic", workers=(1, 4), preemptible=preemptible)],
    )
    toy.settle()
    placement = toy.jobs["red/elastic"].placement

    assert placement is not None
    assert placement.workers == workers


@pytest.mark.parametrize(("mode", "workers"), [(TopologyMode.REQUIRED, 2), (TopologyMode.PREFERRED, 4)])
def test_growth_stays_inside_a_topology_that_is_required(mode: TopologyMode, workers: int) -> None:
    toy = ToyCluster(
        [make_node("n1", rack="r1"), make_node("n2", rack="r2")],
        [make_queue("red", guaranteed=4)],
        [make_job("elastic", workers=(1, 4), topology=Topology("rack", mode))],
    )
    toy.settle()
    placement = toy.jobs["red/elastic"].placement

    assert placement is not None
    assert placement.workers == workers


def test_a_job_with_missing_gpus_does_not_grow() -> None:
    job = make_job("elastic", workers=(1, 4), placement=make_placement(("lost", [[0]])), admitted_at=0.0)

    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1"), make_node("lost", gpus=0)],
            queues=[make_queue("red", guaranteed=4)],
            jobs=[job],
            watched_since=999.0,
        )
    )

    assert plan.actions == ()


def test_an_elastic_job_grows_to_its_maximum() -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=8)], [make_queue("red", guaranteed=8)], [make_job("a", workers=(1, 3), at=1)]
    )
    toy.observe(make_job("filler", gpus=6, at=2))
    toy.settle()
    toy.end("red/filler")
    toy.settle()

    placement = toy.jobs["red/a"].placement
    assert placement is not None
    assert placement.workers == 3
    assert [kind for kind, key in steps(toy) if key == "red/a"] == ["admit", "resize"]


@pytest.mark.parametrize(
    ("placement", "workers"),
    [
        pytest.param(make_placement(("n1", [[0], [1]])), 4, id="to its most"),
        pytest.param(make_placement(("n1", [[0], [1], [2], [3]])), None, id="not where it has its most"),
        pytest.param(make_placement(("n1", [[9], [0]])), None, id="not where its first GPU is out of sight"),
        pytest.param(make_placement(("n1", [[9, 0]])), None, id="nor the first one of its first rank"),
        pytest.param(make_placement(("lost", [[0]]), ("n1", [[0]])), None, id="nor its first node"),
    ],
)
def test_a_placement_grows(placement: Placement, workers: int | None) -> None:
    ledger = Ledger.of([make_node("n1", gpus=8)])
    at = Occupancy(ledger, Usage(QueueTree.of([make_queue("red", guaranteed=8)], ledger.inventory)), BestFit())
    job = make_job("elastic", workers=(1, 4), placement=placement)
    request = RequestResolver(at.inventory, at.tree).resolve(job)
    assert isinstance(request, Request)
    growth = grow(job, placement, request, at)
    assert (None if growth is None else growth.placement.workers) == workers


def test_added_workers_do_not_hold_the_chiefs_extra_amounts() -> None:
    ledger = Ledger.of([make_node("n1", gpus=8)])
    at = Occupancy(ledger, Usage(QueueTree.of([make_queue("red", guaranteed=8)], ledger.inventory)), BestFit())
    placement = make_placement(("n1", [[0]]))
    job = make_job("elastic", workers=(1, 3), placement=placement, cpu_milli=1_000, chief_cpu_milli=50_000)
    request = RequestResolver(at.inventory, at.tree).resolve(job)
    assert isinstance(request, Request)
    growth = grow(job, placement, request, at)
    assert growth is not None
    assert [node.cpu_milli for node in growth.allocation.nodes] == [2_000]
