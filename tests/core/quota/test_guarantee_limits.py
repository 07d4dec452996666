"""Guarantees as limits of what a job that may not be evicted gets: workers, in all and per zone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import Quota
from cotenant.core.quota.headroom import UNLIMITED, Headroom, limit_to_guarantees
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge, Usage
from tests.support.clusters import make_node, make_queue

NODES = [make_node("e", gpus=8, zone="east"), make_node("w", gpus=8, zone="west")]
BUCKETS = (("H100", "east"), ("H100", "west"))
RED = "queue red, class any, zone"


def headroom(own: tuple[Quota, ...], above: tuple[Quota, ...], held: int = 0, milli: int = 1_000) -> Headroom:
    """Headroom of the queue red below org, which holds the given milli-GPU in east."""
    queues = [replace(make_queue("org"), quotas=above), replace(make_queue("red", parent="org"), quotas=own)]
    ledger = Ledger.of(NODES)
    usage = Usage(QueueTree.of(queues, ledger.inventory))
    red = usage.tree.index["red"]
    usage.add(Charge(red, "", ((BUCKETS[0], Amounts(held)),)))
    found = Headroom()
    limit_to_guarantees(found, usage, red, BUCKETS, milli=milli)
    return found


WIDE = (Quota(guaranteed=16_000),)


@pytest.mark.parametrize(
    ("own", "above", "workers", "zones"),
    [
        pytest.param(WIDE, WIDE, 16, {}, id="of all zones"),
        pytest.param((Quota(guaranteed=4_000),), WIDE, 4, {}, id="the narrower of the queue's own"),
        pytest.param(WIDE, (Quota(guaranteed=4_000),), 4, {}, id="the narrower of its parent's"),
        pytest.param((Quota(zone="east", guaranteed=4_000),), WIDE, 16, {"east": 4, "west": 0}, id="nothing elsewhere"),
        pytest.param(
            (Quota(zone="east", guaranteed=4_000), Quota(guaranteed=6_000)), WIDE, 6, {"east": 4}, id="of both"
        ),
        pytest.param((Quota(limit=4_000),), WIDE, 16, {"east": 0, "west": 0}, id="a limit guarantees nothing"),
        pytest.param(
            (Quota(gpu_class="L4", guaranteed=1_000), *WIDE), WIDE, 16, {}, id="of another class does not count"
        ),
    ],
)
def test_each_guarantee_on_the_path_limits_the_workers_that_fit(
    own: tuple[Quota, ...], above: tuple[Quota, ...], workers: int, zones: dict[str, int]
) -> None:
    found = headroom(own, above)

    assert (found.workers, found.zone_workers) == (workers, zones)


@pytest.mark.parametrize(("milli", "workers"), [(1_000, 2), (400, 6), (1_500, 1), (3_000, 0), (0, 2_500)])
def test_the_held_part_of_a_guarantee_is_not_available_again(milli: int, workers: int) -> None:
    found = headroom((Quota(guaranteed=4_000),), WIDE, held=1_500, milli=milli)

    assert found.workers == workers
    assert found.binding is not None
    assert (found.binding.scope, found.binding.limit, found.binding.used) == (
        f"guarantee of {RED} any",
        4_000,
        1_500,
    )


def test_a_zone_in_which_nothing_is_guaranteed_is_named() -> None:
    found = headroom((Quota(zone="east", guaranteed=4_000),), WIDE)

    assert found.workers < UNLIMITED
    assert (found.zone_binding["west"].scope, found.zone_binding["west"].limit) == (f"guarantee of {RED} west", 0)
