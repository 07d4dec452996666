"""Gangs that are to lie apart: as evenly as there is room, and where that is required, not otherwise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job, Node, Spread, TenantQueue, Topology, TopologyMode
from cotenant.core.model.plan import Admit, Reason
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.gang import max_workers, place_gang
from cotenant.core.placement.gang_request import PlacementRequest, capacity_per_node, domains_of
from cotenant.core.placement.shapes import Shape, worker_shape
from cotenant.core.scheduling.scheduler import schedule
from tests.core.worlds.test_properties import LEVELS, clusters
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

HARD, SOFT = TopologyMode.REQUIRED, TopologyMode.PREFERRED
RED = make_queue("red", guaranteed=99)
THREE = [make_node(f"n{number}", gpus=gpus, zone="a") for number, gpus in enumerate((4, 2, 1))]
ZONED = [
    make_node("a0", gpus=3, zone="a", rack="x"),
    make_node("a1", gpus=2, zone="a", rack="y"),
    make_node("b0", gpus=2, zone="b", rack="x"),
    make_node("b1", gpus=2, zone="b", rack="x"),
    make_node("c0", gpus=1, zone="c"),
]


def asks(nodes: list[Node], **changes: Any) -> PlacementRequest:
    return PlacementRequest(Shape(), Tenancy(1), slice(None), **changes)


@pytest.mark.parametrize(
    ("nodes", "workers", "changes", "rows"),
    [
        pytest.param(THREE, 3, {"spread": Spread("node", SOFT)}, {0: 1, 1: 1, 2: 1}, id="one on each node"),
        pytest.param(THREE, 2, {"spread": Spread("node", SOFT)}, {1: 1, 2: 1}, id="of all the tightest"),
        pytest.param(THREE, 5, {"spread": Spread("node", SOFT)}, {0: 2, 1: 2, 2: 1}, id="a second where there is room"),
        pytest.param(THREE, 7, {"spread": Spread("node", SOFT)}, {0: 4, 1: 2, 2: 1}, id="all that there is"),
        pytest.param(THREE, 8, {"spread": Spread("node", SOFT)}, None, id="and no more"),
        pytest.param(THREE, 3, {"spread": Spread("node", HARD)}, {0: 1, 1: 1, 2: 1}, id="where it has to be"),
        pytest.param(THREE, 4, {"spread": Spread("node", HARD)}, None, id="not two on one, where it has to be"),
        pytest.param(THREE, 5, {"spread": Spread("node", HARD, 2)}, {0: 2, 1: 2, 2: 1}, id="but two where two may"),
        pytest.param(THREE, 6, {"spread": Spread("node", HARD, 2)}, None, id="and not three"),
        pytest.param(THREE, 1, {"spread": Spread("node", HARD)}, {2: 1}, id="one worker as without"),
        pytest.param(ZONED, 3, {"spread": Spread("zone", HARD)}, {1: 1, 2: 1, 4: 1}, id="one in each zone"),
        pytest.param(ZONED, 4, {"spread": Spread("zone", HARD)}, None, id="there are three"),
        pytest.param(
            ZONED, 5, {"spread": Spread("zone", HARD, 2)}, {1: 2, 2: 2, 4: 1}, id="inside a zone on one node"
        ),
        pytest.param(
            ZONED, 9, {"spread": Spread("zone", SOFT)}, {0: 3, 1: 1, 2: 2, 3: 2, 4: 1}, id="or on as few as there are"
        ),
        pytest.param(ZONED, 4, {"spread": Spread("rack", HARD)}, {0: 1, 1: 1, 2: 1, 4: 1}, id="racks are of a zone"),
        pytest.param(
            ZONED, 3, {"spread": Spread("zone", SOFT), "zone_workers": {"b": 0}}, {1: 2, 4: 1},
            id="not where quotas leave nothing",
        ),
        pytest.param(
            ZONED, 5, {"spread": Spread("node", SOFT), "zone_workers": {"a": 1, "c": 0}}, {1: 1, 2: 2, 3: 2},
            id="and no more than they leave, over all nodes of a zone",
        ),
        pytest.param(
            ZONED, 2, {"spread": Spread("node", HARD), "topology": Topology("zone", HARD)}, {0: 1, 1: 1},
            id="on different nodes of one zone, the tightest",
        ),
        pytest.param(
            ZONED, 3, {"spread": Spread("node", HARD), "topology": Topology("zone", HARD)}, None,
            id="which has but two of them",
        ),
        pytest.param(
            ZONED, 3, {"spread": Spread("node", HARD), "topology": Topology("zone", SOFT)}, {1: 1, 2: 1, 4: 1},
            id="else anywhere, if it need not be one zone",
        ),
        pytest.param(
            ZONED, 3, {"spread": Spread("node", SOFT), "topology": Topology("zone", HARD)}, {2: 2, 3: 1},
            id="or closer together in one zone, if that has to be",
        ),
        pytest.param(
            ZONED, 3, {"spread": Spread("node", HARD), "topology": Topology("zone", HARD), "zone_workers": {"a": 0}},
            None, id="not in a zone for which there is no quota",
        ),
        pytest.param(
            THREE, 2, {"spread": Spread("node", HARD), "domain_workers": {2: 1}}, {0: 1, 1: 1},
            id="not where one lies already",
        ),
        pytest.param(
            THREE, 1, {"spread": Spread("node", SOFT), "domain_workers": {1: 1, 2: 1}}, {0: 1},
            id="nor if it need not",
        ),
        pytest.param([], 2, {"spread": Spread("node", HARD)}, None, id="nowhere on no node"),
    ],
)  # fmt: skip
def test_a_gang_is_spread_as(
    nodes: list[Node], workers: int, changes: dict[str, Any], rows: dict[int, int] | None
) -> None:
    fits, ask = FitCache(Ledger.of(nodes), BestFit()), asks(nodes, **changes)
    found = place_gang(fits, ask, workers)
    assert (None if found is None else {row: len(columns) for row, columns in found}) == rows
    assert (max_workers(fits, ask) >= workers) == (rows is not None)


@given(clusters(), st.sampled_from(LEVELS), st.integers(1, 12))
def test_no_other_spread_is_more_even(
    world: tuple[list[Node], list[TenantQueue], list[Job]], level: str, workers: int
) -> None:
    """Any domain with two workers more than another has left that one full."""
    nodes, _, jobs = world
    fits = FitCache(Ledger.of(nodes), BestFit())
    inventory = fits.ledger.inventory
    ask = PlacementRequest(worker_shape(jobs[0]), Tenancy(1), slice(None), spread=Spread(level, SOFT))
    if workers == 1 or (found := place_gang(fits, ask, workers)) is None:
        return
    domain = domains_of(inventory, level)
    held = np.bincount(domain, weights=capacity_per_node(fits, ask)).astype(int).tolist()
    given = Counter({number: 0 for number, room in enumerate(held) if room})
    for row, ranks in found:
        given[int(domain[row])] += len(ranks)
    assert given.total() == workers
    assert all(most <= least + 1 or least == held[one] for one, least in given.items() for most in given.values())


def placed(nodes: list[Node], *jobs: Job) -> dict[str, list[str]]:
    """Job → nodes, in one cycle."""
    plan = schedule(make_snapshot(nodes=nodes, queues=[RED], jobs=list(jobs)))
    return {
        action.job: [part.node for part in action.placement.nodes]
        for action in plan.actions
        if isinstance(action, Admit)
    }


def test_a_gang_lies_together_unless_it_asks_for_a_spread() -> None:
    nodes = [make_node("n1", gpus=4), make_node("n2", gpus=4)]
    gang = make_job("gang", workers=2, spread=Spread("node", SOFT))
    assert placed(nodes, make_job("gang", workers=2)) == {"red/gang": ["n1"]}
    assert placed(nodes, gang) == {"red/gang": ["n1", "n2"]}


def test_of_two_classes_the_one_with_the_wider_spread_is_taken() -> None:
    nodes = [make_node("n1", gpus=4, gpu_class="A100"), *(make_node(f"n{number}", gpus=1) for number in (2, 3))]
    assert placed(nodes, make_job("gang", workers=2, spread=Spread("node", SOFT))) == {"red/gang": ["n2", "n3"]}


def test_a_gang_waits_for_a_second_node_and_starts_when_it_is_free() -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=2), make_node("n2", gpus=1)],
        [RED],
        [
            make_job("old", placement=make_placement(("n2", [[0]])), admitted_at=0.0),
            make_job("gang", workers=2, at=1.0, spread=Spread("node", HARD)),
        ],
    )
    verdict = toy.cycle().verdicts["red/gang"]
    assert verdict.reason is Reason.WAITING_FOR_SPREAD
    assert "only 1 of 2 workers fit now with at most 1 worker on one node" in verdict.message
    assert verdict.change == (("spec.spread.mode", '"Preferred"'),)
    toy.end("red/old")
    toy.cycle()
    placement = toy.jobs["red/gang"].placement
    assert placement is not None
    assert [part.node for part in placement.nodes] == ["n1", "n2"]


@pytest.mark.parametrize(("mode", "workers"), [(HARD, 2), (SOFT, 4)])
def test_an_elastic_gang_with_a_spread_grows_onto_other_nodes(mode: TopologyMode, workers: int) -> None:
    job = make_job("wide", workers=(1, 4), spread=Spread("node", mode))
    toy = ToyCluster([make_node("n1", gpus=3), make_node("n2", gpus=3)], [RED], [job])
    toy.settle()
    placement = toy.jobs["red/wide"].placement
    assert placement is not None
    assert [len(part.ranks) for part in placement.nodes] == [workers // 2] * 2
