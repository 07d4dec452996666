"""A chief: the node of rank 0 has room for what it asks for beyond the other ranks, and no node is overcommitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job, Node, Placement, Quota, Spread, Topology, TopologyMode
from cotenant.core.model.plan import Admit
from cotenant.core.placement.chief import chief_capacity, chief_first, chief_row, gangs_with_chief
from cotenant.core.placement.shapes import Shape, chief_of, worker_shape
from cotenant.core.scheduling.scheduler import schedule
from tests.core.worlds.recount import check_nothing_is_overcommitted
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

WORKER: dict[str, Any] = {"cpu_milli": 4_000, "memory_mib": 8_192}


def node(name: str, gpus: int, cpus: int, **changes: Any) -> Node:
    return make_node(name, gpus=gpus, cpu_milli=cpus * 1_000, **changes)


def gang(workers: int | tuple[int, int], **changes: Any) -> Job:
    """4 CPUs for each worker, 12 for the chief."""
    return make_job("gang", workers=workers, **{**WORKER, "chief_cpu_milli": 12_000, **changes})


def nodes_of_gang(nodes: Sequence[Node], job: Job, quotas: tuple[Quota, ...] = ()) -> list[tuple[str, int]]:
    """(node, ranks on it), that of rank 0 first; empty if the gang waits."""
    queue = make_queue("red", quotas=quotas) if quotas else make_queue("red", guaranteed=99)
    plan = schedule(make_snapshot(nodes=list(nodes), queues=[queue], jobs=[job]))
    found = [action.placement for action in plan.actions if isinstance(action, Admit)]
    for placement in found:
        check_nothing_is_overcommitted(list(nodes), [queue], [replace(job, placement=placement)])
    return [(part.node, len(part.ranks)) for placement in found for part in placement.nodes]


@pytest.mark.parametrize(
    ("nodes", "job", "want"),
    [
        pytest.param([node("n1", 4, 16), node("n2", 4, 24)], gang(4), [("n2", 4)], id="on the one node with room"),
        pytest.param(
            [node("n1", 4, 16), node("n2", 2, 16)], gang(6), [("n2", 2), ("n1", 4)],
            id="on the node with room, although another takes more workers",
        ),
        pytest.param(
            [node("n1", 4, 16), node("n2", 4, 16)], gang(6), [("n2", 2), ("n1", 4)],
            id="on a node that is not full of workers",
        ),
        pytest.param(
            [node("n1", 4, 16), node("n2", 4, 16), node("n3", 2, 8)], gang(8), [("n1", 2), ("n2", 4), ("n3", 2)],
            id="on a node that takes fewer workers for it",
        ),
        pytest.param([node("n1", 4, 16), node("n2", 4, 16)], gang(7), [], id="not if all would fit as equals alone"),
        pytest.param([node("n1", 4, 8)], gang(1), [], id="not if no node has so many CPUs"),
        pytest.param([node("n1", 1, 8), node("n2", 1, 12)], gang(1), [("n2", 1)], id="alone"),
        pytest.param(
            [node("n1", 1, 64, host_mib=16_384), node("n2", 1, 64, host_mib=65_536)],
            gang(2, chief_memory_mib=32_768), [("n2", 1), ("n1", 1)], id="by memory",
        ),
        pytest.param(
            [node("n1", 4, 16, rack="a"), node("n2", 4, 16, rack="a"), node("n3", 4, 24, rack="b")],
            gang(6, topology=Topology("rack", TopologyMode.REQUIRED)), [("n2", 2), ("n1", 4)], id="inside one rack",
        ),
        pytest.param(
            [node("n1", 4, 16, rack="a"), node("n2", 4, 16, rack="a"), node("n3", 2, 8, rack="a"),
             node("n4", 4, 64, rack="b")],
            gang(8, topology=Topology("rack", TopologyMode.REQUIRED)), [("n1", 2), ("n2", 4), ("n3", 2)],
            id="inside the rack of the others",
        ),
        pytest.param(
            [node("n1", 4, 16, rack="a"), node("n2", 3, 12, rack="a"), node("n3", 4, 64, rack="b")],
            gang(6, topology=Topology("rack", TopologyMode.REQUIRED)), [], id="not if it has room in another rack",
        ),
        pytest.param(
            [node("n1", 2, 16), node("n2", 2, 16)], gang(2, spread=Spread("node", TopologyMode.REQUIRED)),
            [("n1", 1), ("n2", 1)], id="of a gang that is spread",
        ),
        pytest.param(
            [node("n1", 2, 64), node("n2", 2, 4)], gang(2, spread=Spread("node", TopologyMode.REQUIRED)), [],
            id="spread only if every node keeps the room",
        ),
        pytest.param(
            [node("n1", 2, 16), node("n2", 2, 8)], gang(4, spread=Spread("node", TopologyMode.PREFERRED)),
            [("n1", 2), ("n2", 2)], id="rather than spread if that is only preferred",
        ),
        pytest.param([node("n1", 2, 8)], gang(2, chief_cpu_milli=1_000), [("n1", 2)], id="with less than the others"),
    ],
)  # fmt: skip
def test_rank_0_lies_where_it_has_room(nodes: list[Node], job: Job, want: list[tuple[str, int]]) -> None:
    assert nodes_of_gang(nodes, job) == want


def test_under_a_zone_quota_every_node_keeps_room_for_the_chief() -> None:
    quotas = (Quota(guaranteed=99_000), Quota(zone="east", limit=1_000))
    nodes = [node("n1", 2, 12, zone="east"), node("n2", 2, 16, zone="west")]
    assert nodes_of_gang(nodes, gang(3), quotas) == [("n2", 2), ("n1", 1)]
    assert nodes_of_gang([node("n1", 2, 8, zone="east"), nodes[1]], gang(3), quotas) == []


def test_an_elastic_job_keeps_its_chief_when_it_grows_or_shrinks() -> None:
    nodes, queue = [node("n1", 4, 24), node("n2", 2, 14)], make_queue("red", guaranteed=8)
    toy = ToyCluster(nodes, [queue], [gang((2, 6))])
    sizes = []
    for job in (None, make_job("new", at=9, gpus=2, cpu_milli=8_000)):
        if job is not None:
            toy.observe(job)
        toy.settle()
        check_nothing_is_overcommitted(nodes, [queue], list(toy.jobs.values()))
        placement = toy.jobs["red/gang"].placement
        assert placement is not None
        sizes.append([(part.node, len(part.ranks)) for part in placement.nodes])
    assert sizes == [[("n1", 4), ("n2", 2)], [("n1", 4)]]


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"chief_cpu_milli": 4_000}, None, id="as large as the others"),
        pytest.param({"chief_cpu_milli": 1_000, "chief_memory_mib": 0}, None, id="smaller"),
        pytest.param({"chief_cpu_milli": 9_000}, (9_000, 8_192), id="more CPU"),
        pytest.param({"chief_memory_mib": 9_000}, (4_000, 9_000), id="more memory"),
        pytest.param({"chief_scratch_mib": 9_000}, (4_000, 8_192), id="more scratch space"),
        pytest.param({"chief_cpu_milli": 1_000, "chief_memory_mib": 9_000}, (4_000, 9_000), id="less of one"),
    ],
)
def test_the_shape_of_a_chief(changes: dict[str, Any], want: tuple[int, int] | None) -> None:
    job = make_job("a", **WORKER, **changes)
    found = chief_of(job, worker_shape(job))
    assert (None if found is None else (found.cpu_milli, found.host_mib)) == want


def test_how_many_ranks_a_node_takes_beside_the_chief() -> None:
    ledger = Ledger.of([node(f"n{cpus}", 4, cpus) for cpus in (8, 12, 17, 64)])
    equal = np.array([2, 3, 4, 4])
    chief, none = Shape(cpu_milli=12_000), Shape(cpu_milli=0)
    order = [ledger.inventory.row_of[f"n{cpus}"] for cpus in (8, 12, 17, 64)]
    beside = chief_capacity(ledger, chief, Shape(cpu_milli=4_000), equal[np.argsort(order)])
    assert beside[order].tolist() == [0, 1, 2, 4]
    assert chief_capacity(ledger, chief, none, equal[np.argsort(order)])[order].tolist() == [0, 3, 4, 4]


def test_the_largest_gang_with_a_chief_loses_as_few_workers_as_possible() -> None:
    domain, capacity, with_chief = np.array([0, 0, 1, 2]), np.array([8, 5, 4, 3]), np.array([6, 4, 0, 3])
    assert gangs_with_chief(domain, capacity, with_chief).tolist() == [12, 0, 3]
    assert gangs_with_chief(domain, capacity, capacity).tolist() == [13, 4, 3]
    assert gangs_with_chief(np.zeros(4, dtype=np.int64), capacity, with_chief).tolist() == [20]


def test_the_chiefs_node_is_the_one_of_most_workers_that_leaves_room_for_all() -> None:
    capacity, with_chief = np.array([8, 5, 4]), np.array([6, 5, 0])
    assert chief_first(capacity, with_chief, 15) == 0
    assert chief_first(capacity, with_chief, 16) == 1
    assert chief_row(with_chief, [(0, 8), (1, 5)]) == 1
    assert chief_row(with_chief, [(0, 6), (1, 5)]) == 0
    assert chief_row(with_chief, [(0, 8), (2, 1)]) is None


def test_after_an_eviction_the_place_has_room_for_the_chief() -> None:
    running = make_job("low", gpus=2, cpu_milli=20_000, placement=make_placement(("n1", [[0, 1]])), admitted_at=0.0)
    queue = make_queue("red", guaranteed=2)
    toy = ToyCluster([node("n1", 2, 20), node("n2", 2, 8)], [queue], [running, gang(2, priority=5)])
    toy.settle()
    found: Placement | None = toy.jobs["red/gang"].placement
    assert found is not None
    assert [part.node for part in found.nodes] == ["n1"]
