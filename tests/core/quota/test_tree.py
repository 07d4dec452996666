"""The queue tree: which lines count what, how queues hang together, and what is guaranteed of what exists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import Quota, TimeOrder
from cotenant.core.quota.scopes import amount_in
from cotenant.core.quota.tree import QueueTree
from tests.support.clusters import make_node, make_queue


def test_all_guarantees_shrink_by_one_factor_when_nodes_are_lost() -> None:
    queues = [make_queue("red", guaranteed=8), make_queue("blue", guaranteed=8)]
    tree = QueueTree.of(queues, Inventory.of([make_node("n1", gpus=12), make_node("n2", gpus=4, ready=False)]))

    assert [line.guaranteed for line in tree.quotas] == [6_000, 6_000]
    assert [line.quota.guaranteed for line in tree.quotas] == [8_000, 8_000]


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        ("a", "b", ("a", "b")),
        ("a", "b2", ("a", "b")),
        ("a11", "b", ("a", "b")),
        ("a11", "a2", ("a1", "a2")),
        ("a12", "a11", ("a12", "a11")),
        ("a11", "a1", None),
        ("a", "a11", None),
        ("a", "a", None),
    ],
)
def test_reclaim_is_judged_between_the_children_of_the_lowest_common_ancestor(
    one: str, other: str, want: tuple[str, str] | None
) -> None:
    parents = {"a": None, "b": None, "a1": "a", "a2": "a", "a11": "a1", "a12": "a1", "b2": "b"}
    tree = QueueTree.of([make_queue(name, parent=parent) for name, parent in parents.items()], Inventory.of([]))

    found = tree.below_common_ancestor(tree.index[one], tree.index[other])

    assert (found and tuple(tree.queues[index].name for index in found)) == want


LINES = {
    "any": Quota(guaranteed=1),
    "H100": Quota(gpu_class="H100", guaranteed=2),
    "east": Quota(zone="east", guaranteed=3),
    "H100 in east": Quota(gpu_class="H100", zone="east", guaranteed=4),
}


@pytest.mark.parametrize(
    ("gpu_class", "zone", "counted"),
    [
        ("H100", "east", ["any", "H100", "east", "H100 in east"]),
        ("H100", "west", ["any", "H100"]),
        ("A100", "east", ["any", "east"]),
        ("A100", "west", ["any"]),
    ],
)
def test_a_gpu_is_counted_by_every_line_whose_class_and_zone_it_has(
    gpu_class: str, zone: str, counted: list[str]
) -> None:
    queues = [replace(make_queue("red"), quotas=tuple(LINES.values())), make_queue("team", limit=1, parent="red")]
    tree = QueueTree.of(queues, Inventory.of([]))
    names = [*LINES, "the team's"]

    found = tree.path_quotas(tree.index["team"], (gpu_class, zone))

    assert found is not None
    assert [names[line.index] for line in found] == ["the team's", *counted]


def test_a_queue_grants_only_what_it_and_all_queues_above_with_quota_lines_cover() -> None:
    """An inner queue without lines only groups; a queue of jobs without lines grants nothing."""
    queues = [
        make_queue("top", limit=8, gpu_class="H100"),
        make_queue("group", parent="top"),
        make_queue("team", limit=4, parent="group"),
        make_queue("none", parent="group"),
    ]
    tree = QueueTree.of(queues, Inventory.of([]))

    def scopes(queue: str, gpu_class: str) -> list[str] | None:
        found = tree.path_quotas(tree.index[queue], (gpu_class, ""))
        return None if found is None else [tree.queues[line.queue].name for line in found]

    assert scopes("team", "H100") == ["team", "top"]
    assert scopes("team", "A100") is None
    assert scopes("none", "H100") is None
    assert scopes("group", "H100") is None


def test_queues_stand_in_order_of_name_below_their_parents() -> None:
    parents = {"a": None, "b": "a", "c": "b", "d": None, "e": "a"}
    tree = QueueTree.of([make_queue(name, parent=parents[name]) for name in reversed(parents)], Inventory.of([]))

    assert [queue.name for queue in tree.queues] == list(parents)
    assert tree.parent == (-1, 0, 1, -1, 0)
    assert tree.children == ((1, 4), (2,), (), (), ())
    assert tree.roots == (0, 3)
    assert tree.paths == ((0,), (1, 0), (2, 1, 0), (3,), (4, 0))
    assert [tree.subtree(queue) for queue in range(5)] == [(0, 1, 2, 4), (1, 2), (2,), (3,), (4,)]
    assert tree.broken == {}


def test_a_broken_queue_says_which_link_above_it_is_broken() -> None:
    parents = {"child": "lost", "loop-a": "loop-b", "loop-b": "loop-a", "lost": "gone", "sound": None}
    queues = [make_queue(name, parent=parent, guaranteed=1) for name, parent in parents.items()]
    tree = QueueTree.of(queues, Inventory.of([make_node("n1")]))

    assert tree.broken == {
        "child": "queue lost names the parent gone, which does not exist",
        "lost": "queue lost names the parent gone, which does not exist",
        "loop-a": "queue loop-a is below itself: loop-a → loop-b → loop-a",
        "loop-b": "queue loop-b is below itself: loop-b → loop-a → loop-b",
    }
    assert [tree.queues[root].name for root in tree.roots] == ["sound"]
    assert tree.paths == tuple((number,) for number in range(5))
    assert [line.guaranteed for line in tree.quotas] == [0, 0, 0, 0, 1_000]


def test_a_whole_tree_has_the_half_life_of_its_root() -> None:
    queues = [
        make_queue("top", half_life_s=60),
        make_queue("middle", parent="top", half_life_s=70),
        make_queue("team", parent="middle", half_life_s=80),
    ]
    tree = QueueTree.of(queues, Inventory.of([]))

    assert [tree.root_of(queue).half_life_s for queue in range(3)] == [60, 60, 60]


@pytest.mark.parametrize(
    ("top", "team", "binds"),
    [
        pytest.param(Quota(guaranteed=1_000), {}, False, id="a guarantee is no limit"),
        pytest.param(Quota(limit=1_000), {}, True, id="a limit of GPUs above it"),
        pytest.param(Quota(memory_limit_mib=1), {}, True, id="a limit of memory above it"),
        pytest.param(Quota(guaranteed=1_000, lendable=1_000), {}, False, id="what is lent as a whole"),
        pytest.param(Quota(guaranteed=1_000, lendable=999), {}, True, id="what is lent in part, by any queue"),
        pytest.param(Quota(), {"user_limit": 1_000}, True, id="a limit of its users"),
    ],
)
def test_a_queue_has_limits_if_something_can_bind_before_the_gpus_do(
    top: Quota, team: dict[str, Any], binds: bool
) -> None:
    open_line = (Quota(),)
    queues = [
        replace(make_queue("top"), quotas=(top, *open_line)),
        replace(make_queue("team", parent="top", **team), quotas=open_line),
        replace(make_queue("other"), quotas=open_line),
    ]
    tree = QueueTree.of(queues, Inventory.of([]))

    assert tree.has_limits(tree.index["team"]) == binds
    assert tree.has_limits(tree.index["other"]) == tree.limits_lending == (top.lendable == 999)


def test_capacity_is_the_gpus_that_take_work_by_class_and_zone() -> None:
    sick = make_node("sick", gpus=2, zone="east")
    nodes = [
        make_node("a", gpus=3, zone="east"),
        make_node("b", gpus=2, zone="west"),
        make_node("c", gpus=1, gpu_class="A100", zone="east"),
        make_node("large", gpus=3, gpu_class="H100", memory_mib=143_000, zone="east"),
        make_node("away", gpus=9, zone="east", ready=False),
        replace(sick, gpus=(replace(sick.gpus[0], healthy=False), sick.gpus[1])),
    ]

    tree = QueueTree.of([], Inventory.of(nodes))

    assert tree.capacity == {("H100", "east"): 7_000, ("H100", "west"): 2_000, ("A100", "east"): 1_000}
    quotas = (Quota(), Quota(gpu_class="H100"), Quota(zone="east"), Quota(gpu_class="A100", zone="west"))
    assert [amount_in(tree.capacity, quota.scope) for quota in quotas] == [10_000, 9_000, 8_000, 0]


@pytest.mark.parametrize(
    ("queues", "today"),
    [
        pytest.param([("a", None, 4), ("b", None, 8)], [4_000, 8_000], id="just what there is"),
        pytest.param([("a", None, 4), ("b", None, 9)], [3_692, 8_307], id="one too many: all alike, rounded down"),
        pytest.param([("a", None, 6), ("b", "a", 4), ("c", "a", 4)], [6_000, 3_000, 3_000], id="more than the parent"),
        pytest.param([("a", None, 6), ("b", "a", 7)], [6_000, 6_000], id="an only child, more than the parent"),
        pytest.param([("a", None, 24), ("b", "a", 8), ("c", "a", 8)], [12_000, 6_000, 6_000], id="down the tree"),
        pytest.param([("a", None, None), ("b", "a", 9)], [9_000], id="below a queue that only groups"),
    ],
)
def test_siblings_are_guaranteed_no_more_than_exists_or_their_parent_has(
    queues: list[tuple[str, str | None, int | None]], today: list[int]
) -> None:
    made = [make_queue(name, parent=parent, guaranteed=guaranteed) for name, parent, guaranteed in queues]

    tree = QueueTree.of(made, Inventory.of([make_node("n1", gpus=12)]))

    assert [line.guaranteed for line in tree.quotas] == today


def test_quota_lines_are_scaled_by_scope_and_two_of_one_scope_count_together() -> None:
    """H100: 2 + 2 of a parent with 1 + 2 of 4; A100: enough of them."""
    h100, a100 = Quota(gpu_class="H100", guaranteed=2_000), Quota(gpu_class="A100", guaranteed=1_000)
    queues = [
        replace(make_queue("top"), quotas=(replace(h100, guaranteed=1_000), h100, a100)),
        replace(make_queue("x", parent="top"), quotas=(h100, a100)),
        replace(make_queue("y", parent="top"), quotas=(h100,)),
    ]
    nodes = [make_node("h", gpus=4), make_node("a", gpus=4, gpu_class="A100")]

    tree = QueueTree.of(queues, Inventory.of(nodes))

    assert [line.guaranteed for line in tree.quotas] == [1_000, 2_000, 1_000, 1_500, 1_000, 1_500]
    assert [(line.index, tree.queues[line.queue].name) for line in tree.quotas_of[1]] == [(3, "x"), (4, "x")]


def test_a_whole_tree_has_the_order_and_the_half_life_of_its_root() -> None:
    queues = [
        make_queue("top", order=TimeOrder.LEAST_SERVICE, half_life_s=60),
        make_queue("team", parent="top", order=TimeOrder.AGE, half_life_s=7),
        make_queue("user", parent="team", order=TimeOrder.PREDICTED),
        make_queue("other"),
    ]
    tree = QueueTree.of(queues, Inventory.of([]))

    roots = {queue.name: tree.root_of(at) for at, queue in enumerate(tree.queues)}

    assert {name: (root.order, root.half_life_s) for name, root in roots.items()} == {
        **dict.fromkeys(("top", "team", "user"), (TimeOrder.LEAST_SERVICE, 60)),
        "other": (TimeOrder.AGE, make_queue("other").half_life_s),
    }
