"""Quota trees with one queue or a few, and what is held under them."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import Quota, TenantQueue, UserLimit
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge, Usage
from tests.support.clusters import make_node, make_queue

H100, A100 = ("H100", "east"), ("A100", "")
A_CLASS = (A100, Amounts(500, 40))
AN_H100 = (H100, Amounts(500, 40))
MEMORY = UserLimit(memory_limit_mib=100)


def tree_of(*queues: TenantQueue) -> QueueTree:
    return QueueTree.of(
        queues, Inventory.of([make_node("h", gpus=20, zone="east"), make_node("a", gpus=20, gpu_class="A100")])
    )


def of_users(*limits: UserLimit) -> Usage:
    """Ann holds 500 milli and 40 MiB of either class, bob nothing any more."""
    usage = Usage(tree_of(replace(make_queue("red"), quotas=(Quota(),), user_limits=limits)))
    usage.add(Charge(0, "ann", (AN_H100, A_CLASS)))
    usage.add(Charge(0, "bob", (AN_H100,)))
    usage.add(Charge(0, "bob", (AN_H100,)), -1)
    return usage
