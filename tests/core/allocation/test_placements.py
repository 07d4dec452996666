"""Placements as values: made of assignments, joined and cut; ranks stay contiguous from 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.allocation.placements import (
    cut,
    placement_of,
    renumber,
    union_during_resize,
    with_more,
    without_ranks,
)
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import Placement
from cotenant.core.placement.gang_request import NodeAssignment
from cotenant.core.placement.shapes import Shape
from tests.support.clusters import make_node, make_placement

INVENTORY = Inventory.of([make_node("n1"), make_node("n2"), make_node("n3", gpu_class="A100", memory_mib=40_960)])
WIDE = make_placement(("n1", [[0], [1]]), ("n2", [[0], [1]]))


@pytest.mark.parametrize(
    ("assignments", "want"),
    [
        pytest.param(
            ((1, ((0,), (1,))), (0, ((0,),))),
            make_placement(("n2", [[0], [1]]), ("n1", [[0]])),
            id="rank 0 lies on the first node",
        ),
        pytest.param(((0, ((1, 0),)),), make_placement(("n1", [[1, 0]])), id="GPUs of a worker keep their order"),
    ],
)
def test_a_placement_is_made_from_assignments(assignments: tuple[NodeAssignment, ...], want: Placement) -> None:
    assert placement_of(assignments, Shape(), INVENTORY) == want


def test_a_share_is_granted_in_mib_of_the_gpu_it_lies_on() -> None:
    found = placement_of(((0, ((0,),)), (2, ((1,),))), Shape(whole=False, memory_milli=500), INVENTORY)

    assert [
        (gpu.uuid, gpu.memory_mib, gpu.compute_milli)
        for node in found.nodes
        for rank in node.ranks
        for gpu in rank.gpus
    ] == [("GPU-n1-0", 40_960, 500), ("GPU-n3-1", 20_480, 500)]


@pytest.mark.parametrize(
    ("ranks", "want"),
    [
        pytest.param((), WIDE, id="none"),
        pytest.param((3,), make_placement(("n1", [[0], [1]]), ("n2", [[0]])), id="the last"),
        pytest.param((0,), make_placement(("n1", [[1]]), ("n2", [[0], [1]])), id="the first: the others move up"),
        pytest.param((2, 3), make_placement(("n1", [[0], [1]])), id="all of a node: the node goes"),
        pytest.param((0, 1, 2, 3), Placement(nodes=()), id="all"),
    ],
)
def test_ranks_that_leave_are_left_out_and_the_others_renumbered(ranks: tuple[int, ...], want: Placement) -> None:
    assert without_ranks(WIDE, ranks) == want


def test_a_placement_is_cut_into_stretches_of_workers_which_keep_their_ranks() -> None:
    parts = cut(WIDE, [range(3, 4), range(1, 3), range(1)])
    n1, n2 = WIDE.nodes
    assert parts == [
        Placement(nodes=(replace(n2, ranks=n2.ranks[1:]),)),
        Placement(nodes=(replace(n1, ranks=n1.ranks[1:]), replace(n2, ranks=n2.ranks[:1]))),
        Placement(nodes=(replace(n1, ranks=n1.ranks[:1]),)),
    ]


def test_ranks_follow_the_order_of_the_nodes_and_may_start_above_0() -> None:
    assignments: tuple[NodeAssignment, ...] = ((0, ((0,),)), (1, ((0,), (1,))))
    found = placement_of(assignments, Shape(), INVENTORY, first_rank=3)
    assert [(part.node, [rank.rank for rank in part.ranks]) for part in found.nodes] == [("n1", [3]), ("n2", [4, 5])]


def test_a_resize_keeps_the_node_of_rank_0_first() -> None:
    now, before = make_placement(("n2", [[0]])), make_placement(("n2", [[0]]), ("n1", [[0]]))
    assert [part.node for part in union_during_resize(now, before).nodes] == ["n2", "n1"]


def test_during_a_resize_a_lost_node_with_rank_0_still_holds_it() -> None:
    now, lost = make_placement(("n2", [[0], [1]])), make_placement(("n1", [[0], [1]]))
    found = union_during_resize(now, lost)
    assert [(part.node, [rank.rank for rank in part.ranks]) for part in found.nodes] == [("n2", [0, 1]), ("n1", [0, 3])]


def test_workers_are_added_on_present_nodes_before_new_ones() -> None:
    found = with_more(make_placement(("n2", [[0]]), ("n1", [[0]])), make_placement(("n3", [[0]]), ("n2", [[1]])))

    assert found == make_placement(("n2", [[0], [1]]), ("n1", [[0]]), ("n3", [[0]]))


def test_a_node_without_workers_is_no_part_of_a_placement() -> None:
    gpus = WIDE.nodes[0].ranks[0].gpus

    assert renumber([("n1", []), ("n2", [gpus])]).nodes[0].node == "n2"
    assert renumber([]) == Placement(nodes=())


@pytest.mark.parametrize(
    ("now", "leaving", "want"),
    [
        pytest.param(WIDE, None, WIDE, id="no resize"),
        pytest.param(WIDE, WIDE, WIDE, id="a resize to the same"),
        pytest.param(make_placement(("n1", [[0]])), WIDE, WIDE, id="shrinking holds all that was held"),
        pytest.param(WIDE, make_placement(("n1", [[0]])), WIDE, id="growing holds all that is coming"),
        pytest.param(
            make_placement(("n1", [[0]])),
            make_placement(("n1", [[1]]), ("n2", [[0]])),
            make_placement(("n1", [[0], [1]]), ("n2", [[0]])),
            id="moving holds both",
        ),
        pytest.param(
            make_placement(("n1", [[0], [0], [1]]), milli=200),
            make_placement(("n1", [[0], [1], [1], [1]]), milli=200),
            make_placement(("n1", [[0], [0], [1], [1], [1]]), milli=200),
            id="of shares on one GPU the larger number counts",
        ),
    ],
)
def test_everything_that_is_held_during_a_resize(now: Placement, leaving: Placement | None, want: Placement) -> None:
    assert union_during_resize(now, leaving) == want
