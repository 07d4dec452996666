"""Guarantees as the queue tree scales them to what exists."""

from __future__ import annotations

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.quota.tree import QueueTree
from cotenant.testing import make_node, make_queue


def test_guarantees_shrink_alike_when_nodes_are_lost() -> None:
    queues = [make_queue("red", guaranteed=8), make_queue("blue", guaranteed=8)]
    tree = QueueTree.of(queues, Inventory.of([make_node("n1", gpus=12), make_node("n2", gpus=4, ready=False)]))

    assert [line.guaranteed for line in tree.quotas] == [6_000, 6_000]
    assert [line.quota.guaranteed for line in tree.quotas] == [8_000, 8_000]
