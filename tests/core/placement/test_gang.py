"""Nodes and GPUs of a gang: the largest that fits is placed, and suspect GPUs serve after all others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core import schedule
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job, Node, TenantQueue, Topology, TopologyMode
from cotenant.core.model.plan import Admit
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.gang import PlacementRequest, max_workers, place_gang
from cotenant.core.placement.shapes import worker_shape
from cotenant.core.state.facts import NodeObserved
from cotenant.testing import ToyCluster, make_job, make_node, make_queue, make_snapshot
from tests.core.worlds.test_properties import ZONES, clusters

TOPOLOGIES = [None, *(Topology(level, mode) for level in ("node", "rack", "zone") for mode in TopologyMode)]


@given(clusters(), st.data())
def test_the_largest_gang_that_fits_is_placed_and_no_larger_one(
    world: tuple[list[Node], list[TenantQueue], list[Job]], data: st.DataObject
) -> None:
    nodes, _, jobs = world
    ledger = Ledger.of(nodes)
    zone_room = data.draw(st.dictionaries(st.sampled_from(ZONES), st.integers(0, 6)))
    for job in jobs:
        ask = PlacementRequest(
            worker_shape(job),
            Tenancy(1),
            np.ones(len(nodes), dtype=np.bool_),
            distinct=job.distinct_gpus,
            topology=data.draw(st.sampled_from(TOPOLOGIES)),
            zone_workers=zone_room,
        )
        room = FitCache(ledger, BestFit())
        fits = max_workers(room, ask)
        for workers in range(1, fits + 2):
            picks = place_gang(room, ask, workers)
            assert (picks is not None) == (workers <= fits)
            if picks is not None:
                per_zone = dict.fromkeys(ZONES, 0)
                for row, columns in picks:
                    per_zone[ledger.inventory.nodes[row].zone] += len(columns)
                assert sum(per_zone.values()) == workers
                assert all(per_zone[zone] <= room_there for zone, room_there in zone_room.items())


def slow(node: Node, *columns: int) -> Node:
    return replace(node, gpus=tuple(replace(gpu, suspect=True) if gpu.index in columns else gpu for gpu in node.gpus))


def placed(nodes: list[Node], *jobs: Job) -> dict[str, list[str]]:
    """Job → UUIDs, in one cycle."""
    plan = schedule(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=99)], jobs=list(jobs)))
    return {
        action.job: [gpu.uuid for part in action.placement.nodes for rank in part.ranks for gpu in rank.gpus]
        for action in plan.actions
        if isinstance(action, Admit)
    }


def test_a_job_takes_another_gpu_of_the_same_node() -> None:
    assert placed([slow(make_node("n1"), 0)], make_job("one")) == {"red/one": ["GPU-n1-1"]}


def test_a_job_takes_another_node_although_its_own_choice_packs_better() -> None:
    nodes = [slow(make_node("n1", gpus=1), 0), make_node("n2", gpus=8)]
    assert placed(nodes, make_job("one")) == {"red/one": ["GPU-n2-0"]}
    assert placed([make_node("n1", gpus=1), nodes[1]], make_job("one")) == {"red/one": ["GPU-n1-0"]}


def test_shares_too() -> None:
    jobs = [make_job(f"half-{number}", milli=500, at=number) for number in range(2)]
    assert placed([slow(make_node("n1"), 0)], *jobs) == {"red/half-0": ["GPU-n1-1"], "red/half-1": ["GPU-n1-1"]}


def test_nobody_waits_and_nobody_is_evicted_because_a_gpu_is_suspect() -> None:
    jobs = [make_job("low"), make_job("high", priority=9, at=1.0)]
    assert placed([slow(make_node("n1"), 0)], *jobs) == {"red/high": ["GPU-n1-1"], "red/low": ["GPU-n1-0"]}


def test_a_gang_that_would_lie_on_more_nodes_takes_the_suspect() -> None:
    nodes = [slow(make_node("n1", gpus=4), 2), make_node("n2", gpus=2), make_node("n3", gpus=2)]
    found = placed(nodes, make_job("gang", workers=4))
    assert found == {"red/gang": [f"GPU-n1-{column}" for column in (0, 1, 3, 2)]}


def test_a_gang_that_would_leave_its_rack_takes_the_suspect() -> None:
    nodes = [
        make_node("n1", rack="a"),
        slow(make_node("n2", rack="a"), 0),
        make_node("n3", rack="b"),
        slow(make_node("n4", rack="b"), 0),
    ]
    gang = make_job("gang", workers=4)
    near = replace(gang, topology=Topology("rack", TopologyMode.PREFERRED))
    assert {uuid[:6] for uuid in placed(nodes, near)["red/gang"]} == {"GPU-n1", "GPU-n2"}
    assert {uuid[:6] for uuid in placed(nodes, gang)["red/gang"]} == {"GPU-n1", "GPU-n3"}


def test_an_elastic_job_does_not_grow_onto_a_suspect() -> None:
    toy = ToyCluster(
        [slow(make_node("n1", gpus=4), 1)], [make_queue("red", guaranteed=4)], [make_job("wide", workers=(1, 4))]
    )
    toy.settle()
    grown = toy.jobs["red/wide"].placement
    assert grown is not None
    assert grown.workers == 3
    assert "GPU-n1-1" not in {gpu.uuid for part in grown.nodes for rank in part.ranks for gpu in rank.gpus}


def test_a_gpu_is_suspect_from_the_moment_that_it_is_found_until_somebody_says_otherwise() -> None:
    node = make_node("n1")
    toy = ToyCluster([node], [make_queue("red", guaranteed=2)])
    used = []
    for number, seen in enumerate([node, slow(node, 0), node]):
        toy.state.observe(NodeObserved(seen))
        toy.observe(make_job(f"j{number}"))
        toy.cycle()
        placement = toy.jobs[f"red/j{number}"].placement
        assert placement is not None
        used.append(placement.nodes[0].ranks[0].gpus[0].uuid)
        toy.end(f"red/j{number}")
    assert used == ["GPU-n1-0", "GPU-n1-1", "GPU-n1-0"]


@given(clusters(), st.data())
def test_suspects_change_which_gpus_and_never_whether(
    world: tuple[list[Node], list[TenantQueue], list[Job]], data: st.DataObject
) -> None:
    """One gang on an empty cluster: placed with suspects exactly where it is placed without them, on no more nodes, and
    on suspects only where the others do not suffice on so few."""
    nodes, _, jobs = world
    doubted = [slow(node, *data.draw(st.sets(st.integers(0, 7), max_size=4))) for node in nodes]
    for job in jobs:
        found = []
        for ledger in (Ledger.of(nodes), Ledger.of(doubted)):
            rows = ledger.inventory.ready | True
            ask = PlacementRequest(
                worker_shape(job), Tenancy(1), rows, distinct=job.distinct_gpus, topology=job.topology
            )
            found.append(place_gang(FitCache(ledger, BestFit()), ask, job.workers_min))
        plain, careful = found
        assert (plain is None) == (careful is None)
        if plain is not None and careful is not None:
            assert len(careful) <= len(plain)
            taken = [column for row, workers in careful for columns in workers for column in columns]
            assert len(taken) == job.workers_min * worker_shape(job).count
