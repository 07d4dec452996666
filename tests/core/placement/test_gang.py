"""Nodes and GPUs of a gang: the largest that fits is placed, and suspect GPUs serve after all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job, Node, TenantQueue, Topology, TopologyMode
from cotenant.core.model.plan import Admit
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.gang import max_workers, place_gang
from cotenant.core.placement.gang_request import PlacementRequest
from cotenant.core.placement.scoring import Scores
from cotenant.core.placement.shapes import Shape, chief_of, worker_shape
from cotenant.core.placement.spreading import crowding
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.state.facts import NodeObserved
from tests.core.worlds.test_properties import ZONES, clusters, spreads_below
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue, make_snapshot

TOPOLOGIES = [None, *(Topology(level, mode) for level in ("node", "rack", "zone") for mode in TopologyMode)]


@given(clusters(), st.data())
def test_the_largest_gang_that_fits_is_placed_and_no_larger_one(
    world: tuple[list[Node], list[TenantQueue], list[Job]], data: st.DataObject
) -> None:
    nodes, _, jobs = world
    ledger = Ledger.of(nodes)
    zone_room = data.draw(st.dictionaries(st.sampled_from(ZONES), st.integers(0, 6)))
    for job in jobs:
        near = data.draw(st.sampled_from(TOPOLOGIES))
        ask = PlacementRequest(
            worker_shape(job),
            Tenancy(1),
            slice(None),
            chief=chief_of(job, worker_shape(job)),
            distinct=job.distinct_gpus,
            topology=near,
            spread=data.draw(st.sampled_from([None, *spreads_below(near)])),
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
                head = None if ask.chief is None else picks[0][0]
                for row, columns in picks:
                    cpu = job.cpu_milli * len(columns) + (job.chief_amounts[0] - job.cpu_milli if row == head else 0)
                    assert cpu <= ledger.inventory.nodes[row].cpu_milli
                assert all(per_zone[zone] <= room_there for zone, room_there in zone_room.items())
                if ask.spread is not None and ask.spread.mode is TopologyMode.REQUIRED:
                    assert crowding(ledger.inventory, ask, picks)[0] <= ask.spread.most


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


def test_shares_avoid_suspect_gpus_too() -> None:
    jobs = [make_job(f"half-{number}", milli=500, at=number) for number in range(2)]
    assert placed([slow(make_node("n1"), 0)], *jobs) == {"red/half-0": ["GPU-n1-1"], "red/half-1": ["GPU-n1-1"]}


def test_a_suspect_gpu_makes_no_job_wait_and_no_job_leave() -> None:
    jobs = [make_job("low"), make_job("high", priority=9, at=1.0)]
    assert placed([slow(make_node("n1"), 0)], *jobs) == {"red/high": ["GPU-n1-1"], "red/low": ["GPU-n1-0"]}


def test_a_gang_takes_the_suspect_gpu_rather_than_more_nodes() -> None:
    nodes = [slow(make_node("n1", gpus=4), 2), make_node("n2", gpus=2), make_node("n3", gpus=2)]
    found = placed(nodes, make_job("gang", workers=4))
    assert found == {"red/gang": [f"GPU-n1-{column}" for column in (0, 1, 3, 2)]}


def test_a_gang_takes_the_suspect_gpu_rather_than_another_rack() -> None:
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


def test_an_elastic_job_does_not_grow_onto_a_suspect_gpu() -> None:
    toy = ToyCluster(
        [slow(make_node("n1", gpus=4), 1)], [make_queue("red", guaranteed=4)], [make_job("wide", workers=(1, 4))]
    )
    toy.settle()
    grown = toy.jobs["red/wide"].placement
    assert grown is not None
    assert grown.workers == 3
    assert "GPU-n1-1" not in {gpu.uuid for part in grown.nodes for rank in part.ranks for gpu in rank.gpus}


def test_a_gpu_is_suspect_until_it_is_cleared() -> None:
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
def test_suspect_gpus_change_the_place_of_a_job_and_never_its_start(
    world: tuple[list[Node], list[TenantQueue], list[Job]], data: st.DataObject
) -> None:
    """One gang on an empty cluster: placed with suspects exactly where it is placed without them, on no more nodes, and
    on suspects only where the others do not suffice on so few."""
    nodes, _, jobs = world
    doubted = [slow(node, *data.draw(st.sets(st.integers(0, 7), max_size=4))) for node in nodes]
    for job in jobs:
        found = []
        for ledger in (Ledger.of(nodes), Ledger.of(doubted)):
            ask = PlacementRequest(
                worker_shape(job), Tenancy(1), slice(None), distinct=job.distinct_gpus, topology=job.topology
            )
            found.append(place_gang(FitCache(ledger, BestFit()), ask, job.workers_min))
        plain, careful = found
        assert (plain is None) == (careful is None)
        if plain is not None and careful is not None:
            assert len(careful) <= len(plain)
            taken = [column for row, workers in careful for columns in workers for column in columns]
            assert len(taken) == job.workers_min * worker_shape(job).count


class RecordingScorer(BestFit):
    """Best fit that notes of how many GPUs and of what CPU the shapes are that it is asked to score."""

    def __init__(self) -> None:
        self.scored: set[tuple[int, int]] = set()

    def score(self, ledger: Ledger, shape: Shape, rows: IntArray, fit: BoolArray) -> Scores:
        self.scored.add((shape.count, shape.cpu_milli))
        return super().score(ledger, shape, rows, fit)


ONE, PAIR, CPU = Shape(), Shape(count=2), Shape(count=0, cpu_milli=1_000)
HALF = Shape(whole=False, memory_milli=500)
RACK = Topology("rack", TopologyMode.REQUIRED)
NEAR = Topology("rack", TopologyMode.PREFERRED)
EIGHT = [make_node(f"n{number}", gpus=gpus) for number, gpus in enumerate((8, 8, 5, 3))]
ZONED = [
    make_node("a0", gpus=2, zone="a"),
    make_node("a1", gpus=2, zone="a"),
    make_node("b0", gpus=3, zone="b"),
    make_node("b1", gpus=3, zone="b"),
]
APART = [
    make_node("a0", gpus=3, zone="a"),
    make_node("a1", gpus=3, zone="a"),
    make_node("b0", gpus=2, zone="b"),
    make_node("b1", gpus=9, zone="b"),
]
RACKED = [
    make_node("x0", gpus=2, rack="x"),
    make_node("x1", gpus=2, rack="x"),
    make_node("y0", gpus=3, rack="y"),
    make_node("z0", gpus=1, rack="z"),
]
LINKED = make_node("n0", gpus=6, peers=((0, 3, 5), (1, 2)))
"""4 is linked to none."""


def asks(nodes: list[Node], shape: Shape, **changes: Any) -> PlacementRequest:
    return PlacementRequest(
        shape, Tenancy(1), np.array(changes.pop("rows", range(len(nodes))), dtype=np.int64), **changes
    )


@pytest.mark.parametrize(
    ("nodes", "changes", "workers"),
    [
        pytest.param([], {}, 0, id="nothing on nothing"),
        pytest.param([], {"topology": RACK}, 0, id="nor in a domain of it"),
        pytest.param(RACKED, {}, 8, id="all there is"),
        pytest.param(RACKED, {"topology": NEAR}, 8, id="also where they had better be near"),
        pytest.param(RACKED, {"topology": RACK}, 4, id="one domain, where they have to be"),
        pytest.param(ZONED, {"zone_workers": {"b": 4}}, 8, id="what quota allows in each zone"),
        pytest.param(ZONED, {"topology": RACK}, 3, id="a node that is in no rack is one by itself"),
        pytest.param(
            ZONED, {"topology": Topology("zone", TopologyMode.REQUIRED), "zone_workers": {"b": 1}}, 4,
            id="in the one that quota leaves most",
        ),
        pytest.param(ZONED, {"excluded": frozenset({(0, 0)})}, 9, id="without what is excluded"),
    ],
)  # fmt: skip
def test_the_largest_gang_that_fits_has(nodes: list[Node], changes: dict[str, Any], workers: int) -> None:
    assert max_workers(FitCache(Ledger.of(nodes), BestFit()), asks(nodes, ONE, **changes)) == workers


@pytest.mark.parametrize(
    ("nodes", "shape", "workers", "changes", "rows"),
    [
        pytest.param(EIGHT, ONE, 18, {}, {0: 8, 1: 8, 3: 2}, id="the fullest takers, the rest where it fills most"),
        pytest.param(EIGHT, ONE, 20, {}, {0: 8, 1: 8, 2: 4}, id="where it fits"),
        pytest.param(EIGHT, ONE, 3, {}, {3: 3}, id="the one that takes exactly all"),
        pytest.param(EIGHT, ONE, 4, {}, {2: 4}, id="or the tightest that does"),
        pytest.param(EIGHT, ONE, 25, {}, None, id="nowhere, if it is more than there is"),
        pytest.param(EIGHT, ONE, 1, {"rows": []}, None, id="nor where it may not"),
        pytest.param(EIGHT, ONE, 1, {"rows": [0, 2]}, {2: 1}, id="one worker, on the tightest of its rows"),
        pytest.param(EIGHT, CPU, 1, {}, {3: 1}, id="one worker without a GPU"),
        pytest.param(ZONED, ONE, 1, {"zone_workers": {"a": 0}}, {2: 1}, id="one worker, where quota allows it"),
        pytest.param(ZONED, ONE, 1, {"zone_workers": {"b": 9}}, {0: 1}, id="by score, whatever the zone"),
        pytest.param(APART, ONE, 1, {"zone_workers": {"b": 99}}, {2: 1}, id="also where that zone is not the tightest"),
        pytest.param(APART, ONE, 2, {"zone_workers": {"b": 99}}, {0: 2}, id="two in the tightest that takes both"),
        pytest.param(
            [slow(make_node("n0", gpus=1), 0), make_node("n1")], CPU, 1, {}, {0: 1}, id="suspect or not, without a GPU"
        ),
        pytest.param(ZONED, ONE, 3, {"zone_workers": {"a": 9}}, {0: 2, 1: 1}, id="in the tightest zone"),
        pytest.param(ZONED, ONE, 3, {"zone_workers": {"a": 2}}, {2: 3}, id="inside a zone, on a node that takes all"),
        pytest.param(ZONED, ONE, 4, {"zone_workers": {"b": 9}}, {0: 2, 1: 2}, id="the tightest zone that takes all"),
        pytest.param(ZONED, ONE, 4, {"zone_workers": {"a": 3}}, {2: 3, 3: 1}, id="that has quota for all"),
        pytest.param(ZONED, ONE, 5, {"zone_workers": {"b": 4}}, {2: 3, 0: 2}, id="else over several"),
        pytest.param(
            ZONED[:3], ONE, 4, {"zone_workers": {"b": 9}, "topology": Topology("node", TopologyMode.REQUIRED)}, None,
            id="not over two nodes, where it has to be one",
        ),
        pytest.param(RACKED, ONE, 4, {"topology": RACK}, {0: 2, 1: 2}, id="inside a domain"),
        pytest.param(RACKED, ONE, 4, {"topology": NEAR}, {0: 2, 1: 2}, id="the same, where it had better be"),
        pytest.param(RACKED, ONE, 4, {}, {2: 3, 3: 1}, id="but not where it does not matter"),
        pytest.param(RACKED, ONE, 5, {"topology": RACK}, None, id="no domain is large enough"),
        pytest.param(
            [make_node("n0", gpus=2, cpu_milli=8_000), make_node("n1", gpus=1)], ONE, 3,
            {"chief": Shape(cpu_milli=9_000)}, {1: 1, 0: 2}, id="rank 0 on the node with room for the chief",
        ),
        pytest.param(RACKED, ONE, 5, {"topology": NEAR}, {2: 3, 0: 2}, id="which matters only where it has to be one"),
    ],
)  # fmt: skip
def test_a_gang_lies_on(
    nodes: list[Node], shape: Shape, workers: int, changes: dict[str, Any], rows: dict[int, int] | None
) -> None:
    found = place_gang(FitCache(Ledger.of(nodes), BestFit()), asks(nodes, shape, **changes), workers)
    assert (None if found is None else [(row, len(columns)) for row, columns in found]) == (rows and [*rows.items()])


@pytest.mark.parametrize(
    ("node", "shape", "workers", "changes", "columns"),
    [
        pytest.param(LINKED, ONE, 1, {}, [(0,)], id="one on the first"),
        pytest.param(LINKED, ONE, 1, {"excluded": frozenset({(0, 0)})}, [(1,)], id="that is not excluded"),
        pytest.param(LINKED, ONE, 2, {}, [(1,), (2,)], id="two on the group of two"),
        pytest.param(LINKED, PAIR, 1, {}, [(1, 2)], id="as is a worker of two"),
        pytest.param(LINKED, ONE, 3, {}, [(0,), (3,), (5,)], id="three on the group of three"),
        pytest.param(LINKED, PAIR, 2, {}, [(0, 3), (1, 2)], id="each of two workers of two on one group"),
        pytest.param(LINKED, PAIR, 3, {}, [(0, 3), (1, 2), (5, 4)], id="and a third on what is left"),
        pytest.param(make_node("n0", gpus=3, peers=((1, 2),)), PAIR, 1, {}, [(1, 2)], id="of two groups the larger"),
        pytest.param(make_node("n0", gpus=2), HALF, 2, {}, [(0,), (1,)], id="shares on GPUs of their own"),
        pytest.param(make_node("n0", gpus=2), HALF, 3, {"distinct": False}, [(0,), (0,), (1,)], id="or side by side"),
        pytest.param(slow(make_node("n0", gpus=2), 0), CPU, 5, {}, [()] * 5, id="none of who needs none"),
        pytest.param(make_node("n0", gpus=2), CPU, 1, {}, [()], id="nor of a single one"),
    ],
)  # fmt: skip
def test_workers_on_one_node_get_gpus(
    node: Node, shape: Shape, workers: int, changes: dict[str, Any], columns: list[tuple[int, ...]]
) -> None:
    found = place_gang(FitCache(Ledger.of([node]), BestFit()), asks([node], shape, **changes), workers)
    assert found == ((0, tuple(columns)),)


SMALL = replace(HALF, cpu_milli=10)


@pytest.mark.parametrize(
    ("shape", "distinct", "workers", "scored"),
    [
        pytest.param(SMALL, True, 1, {(1, 10)}, id="one as it is"),
        pytest.param(SMALL, True, 2, {(2, 20)}, id="two that lie on GPUs of their own, as one that asks for both"),
        pytest.param(SMALL, False, 2, {(1, 10)}, id="two that may share one, as they are"),
        pytest.param(Shape(cpu_milli=10), False, 2, {(2, 20)}, id="whole GPUs never do"),
    ],
)
def test_workers_on_one_node_are_scored(
    shape: Shape, distinct: bool, workers: int, scored: set[tuple[int, int]]
) -> None:
    scorer = RecordingScorer()
    nodes = [make_node("n0"), make_node("n1")]
    place_gang(FitCache(Ledger.of(nodes), scorer), asks(nodes, shape, distinct=distinct), workers)
    assert scorer.scored == scored
