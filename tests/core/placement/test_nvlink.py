"""GPUs that reach each other by NVLink go together: on one node, among nodes, and when what is reported changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import Job, Node, Placement
from cotenant.core.model.plan import Admit
from cotenant.core.placement.gang_request import NodeAssignment
from cotenant.core.placement.nvlink import link_levels, linkage, peers_first
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.state.facts import NodeObserved
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

RED = make_queue("red", guaranteed=99)
PAIRS = make_node("n1", gpus=4, peers=((0, 1), (2, 3)))
LINKED = make_node("n0", gpus=6, peers=((0, 3, 5), (1, 2)))
"""4 is linked to none."""


@pytest.mark.parametrize(
    ("workers", "count", "level"),
    [
        pytest.param(1, 2, 2, id="a worker of two in one group"),
        pytest.param(3, 1, 2, id="so are three workers of one"),
        pytest.param(4, 1, 0, id="four are in two groups"),
        pytest.param(2, 2, 1, id="of two workers of two each in its own"),
        pytest.param(3, 2, 0, id="not of three"),
        pytest.param(1, 4, 0, id="nor one of four"),
    ],
)
def test_how_well_the_gpus_of_a_node_are_linked(workers: int, count: int, level: int) -> None:
    everything = np.ones((1, 6), dtype=np.bool_)
    assert link_levels(Inventory.of([LINKED]), np.array([0]), everything, workers, count).tolist() == [level]


@pytest.mark.parametrize(
    ("assignments", "level"),
    [
        pytest.param([(0, ((0, 3),))], 2, id="one group"),
        pytest.param([(0, ((0, 3), (1, 2)))], 1, id="a group for each"),
        pytest.param([(0, ((0, 1),))], 0, id="none"),
        pytest.param([(0, ((0,), (1,)))], 0, id="workers of one GPU in two groups"),
        pytest.param([(0, ((0, 3),)), (0, ((0, 1),))], 0, id="as on the worse of two nodes"),
    ],
)
def test_how_well_chosen_gpus_are_linked(assignments: list[NodeAssignment], level: int) -> None:
    assert linkage(Inventory.of([LINKED]), assignments) == level
    assert linkage(Inventory.of([make_node("n0", gpus=6)]), assignments) == 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 4), st.integers(1, 4))
def test_as_many_workers_as_possible_get_gpus_of_one_nvlink_group(
    group_of: list[int], workers: int, count: int
) -> None:
    columns = list(range(len(group_of)))
    found = peers_first(group_of, columns, workers, count)
    assert len(set(found)) == len(found) >= min(workers * count, len(columns))
    if workers * count > len(columns):
        return
    parts = [found[worker * count : (worker + 1) * count] for worker in range(workers)]
    together = sum(len({group_of[column] for column in part}) == 1 for part in parts)
    assert together >= min(workers, sum(group_of.count(group) // count for group in set(group_of)))


def placed(nodes: list[Node], *jobs: Job) -> dict[str, Placement]:
    plan = schedule(make_snapshot(nodes=nodes, queues=[RED], jobs=list(jobs)))
    return {action.job: action.placement for action in plan.actions if isinstance(action, Admit)}


def test_a_worker_of_two_gpus_goes_to_a_node_with_a_linked_pair_although_another_packs_better() -> None:
    plain = make_node("n0", gpus=2)
    assert placed([plain, PAIRS], make_job("pair", gpus=2)) == {"red/pair": make_placement(("n1", [[0, 1]]))}
    assert placed([plain, replace(PAIRS, gpus=plain.gpus)], make_job("one")).keys() == {"red/one"}


def test_two_workers_go_to_a_linked_pair_too() -> None:
    nodes = [make_node("n0", gpus=4), PAIRS]
    assert placed(nodes, make_job("gang", workers=2)) == {"red/gang": make_placement(("n1", [[0], [1]]))}
    assert placed(nodes, make_job("wide", gpus=2, workers=2)) == {"red/wide": make_placement(("n1", [[0, 1], [2, 3]]))}


def test_a_linked_pair_is_not_split_for_a_single_gpu() -> None:
    nodes = [make_node("n0", gpus=1), PAIRS]
    assert placed(nodes, make_job("one")) == {"red/one": make_placement(("n0", [[0]]))}


def test_of_two_classes_the_linked_one_is_chosen() -> None:
    nodes = [make_node("n0", gpus=2, gpu_class="L40S"), make_node("n1", peers=((0, 1),))]
    assert placed(nodes, make_job("pair", gpus=2)) == {"red/pair": make_placement(("n1", [[0, 1]]))}


def test_without_a_linked_pair_the_job_starts_all_the_same() -> None:
    held = make_job("old", workers=2, placement=make_placement(("n1", [[0], [2]])), admitted_at=0.0)
    assert placed([PAIRS], held, make_job("pair", gpus=2)) == {"red/pair": make_placement(("n1", [[1, 3]]))}


def test_a_changed_topology_counts_from_the_next_decision_on() -> None:
    """The link of 0 and 1 goes down, then 1 and 2 are joined: what runs stays, who comes next gets what is linked."""
    reports = [((0, 1),), ((2, 3),), ((1, 2),), ()]
    toy = ToyCluster([make_node("n1", gpus=4)], [RED])
    taken = []
    for number, peers in enumerate(reports):
        toy.state.observe(NodeObserved(make_node("n1", gpus=4, peers=peers)))
        toy.observe(make_job(f"pair-{number}", gpus=2))
        toy.cycle()
        placement = toy.jobs[f"red/pair-{number}"].placement
        assert placement is not None
        taken.append(tuple(gpu.uuid[-1] for gpu in placement.nodes[0].ranks[0].gpus))
        toy.end(f"red/pair-{number}")
    assert taken == [("0", "1"), ("2", "3"), ("1", "2"), ("0", "1")]
