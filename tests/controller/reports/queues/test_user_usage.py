"""Users in the status of a Queue: who holds what under which limit. Pure, no cluster."""

from __future__ import annotations

from dataclasses import replace

from cotenant.api.resources.queue_status import UserUsage
from cotenant.controller.reports.queues.user_usage import MOST_USERS, users_of
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import UserLimit
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge, Usage
from tests.support.clusters import make_node, make_queue

H100 = ("H100", "east")


def usage_of(*limits: UserLimit) -> Usage:
    queue = replace(make_queue("red", guaranteed=8), user_limits=limits)
    return Usage(QueueTree.of([queue], Inventory.of([make_node("n1", gpus=8, zone="east")])))


def shown(found: UserUsage) -> dict[str, object]:
    return found.to_document()


def test_each_user_stands_there_under_the_line_that_counts_for_him_the_nearest_to_his_limit_first() -> None:
    usage = usage_of(
        UserLimit(limit=4_000), UserLimit(user="bob", limit=8_000), UserLimit(gpu_class="H100", memory_limit_mib=92_160)
    )
    usage.add(Charge(0, "ann", ((H100, Amounts(1_000, 81_920)),)))
    usage.add(Charge(0, "bob", ((H100, Amounts(2_500, 1_024)),)))

    assert [shown(one) for one in users_of(usage, 0)] == [
        {"user": "ann", "gpuClass": "H100", "used": "1", "memoryUsed": "80Gi", "memoryLimit": "90Gi"},
        {"user": "bob", "limit": "8", "used": "2.5"},
        {"user": "ann", "limit": "4", "used": "1"},
        {"user": "bob", "gpuClass": "H100", "used": "2.5", "memoryUsed": "1Gi", "memoryLimit": "90Gi"},
    ]


def test_who_holds_nothing_any_more_is_not_there() -> None:
    usage, charge = usage_of(UserLimit(limit=4_000)), Charge(0, "ann", ((H100, Amounts(1_000, 81_920)),))
    usage.add(charge)
    usage.add(charge, -1)

    assert users_of(usage, 0) == ()


def test_however_many_users_a_queue_has_its_status_stays_small() -> None:
    usage = usage_of(UserLimit(limit=4_000))
    for number in range(MOST_USERS + 3):
        usage.add(Charge(0, f"user-{number:03}", ((H100, Amounts(10 + number, 1)),)))

    found = users_of(usage, 0)

    assert [one.user for one in found] == [f"user-{number:03}" for number in range(MOST_USERS + 2, 2, -1)]
