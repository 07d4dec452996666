"""Guarantees as the queue tree scales them to what exists."""

from __future__ import annotations

import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.quota.tree import QueueTree
from cotenant.testing import make_node, make_queue


def test_guarantees_shrink_alike_when_nodes_are_lost() -> None:
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
