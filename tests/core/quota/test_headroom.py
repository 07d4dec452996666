"""Workers that limits and lending leave room for, and the rule that binds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.measure import Amounts, BindingLimit, Measure
from cotenant.core.model.objects import Quota, TenantQueue, UserLimit
from cotenant.core.model.plan import Admit, Reason
from cotenant.core.quota.headroom import (
    UNLIMITED,
    Headroom,
    headroom_of,
    limit_to_guarantees,
    raised_limit,
    within_lending_limits,
)
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge, Usage
from cotenant.core.scheduling.scheduler import schedule
from tests.core.quota.quota_trees import A100, H100, MEMORY, of_users, tree_of
from tests.core.worlds.held_amounts import same_usage
from tests.support.clusters import make_job, make_node, make_queue, make_snapshot


def test_gpus_that_a_queue_does_not_lend_stay_free_for_it() -> None:
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=3, lendable=1)]
    jobs = [make_job(f"r{index}", at=index) for index in range(4)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=queues, jobs=jobs))

    assert [action.job for action in plan.actions if isinstance(action, Admit)] == ["red/r0", "red/r1"]
    assert plan.verdicts["red/r2"].reason == Reason.WAITING_FOR_QUOTA


def test_a_borrower_may_take_idle_gpus_minus_those_that_others_withhold() -> None:
    """8 idle, blue guarantees 6, lends 2, uses 1: 3 are withheld, red may take 5."""
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=6, lendable=2)]
    tree = QueueTree.of(queues, Inventory.of([make_node("n1", gpus=9)]))
    usage, red, bucket = Usage(tree), tree.index["red"], ("H100", "")
    usage.add(Charge(tree.index["blue"], "", ((bucket, Amounts(1_000)),)))
    idle = {bucket: 8_000}

    headroom = headroom_of(usage, red, "", "H100", Amounts(1_000), idle=idle)

    limit = BindingLimit(Measure.GPU, "what other queues lend, class any, zone any", 5_000, 0)
    assert (headroom.workers, headroom.binding) == (5, limit)
    assert within_lending_limits(usage, Charge(red, "", ((bucket, Amounts(5_000)),)), idle)
    assert not within_lending_limits(usage, Charge(red, "", ((bucket, Amounts(5_001)),)), idle)


def test_a_queue_withholds_nothing_from_its_own_subtree() -> None:
    queues = [make_queue("top", guaranteed=6, lendable=0), make_queue("red", guaranteed=0, parent="top")]
    tree = QueueTree.of(queues, Inventory.of([make_node("n1", gpus=8)]))

    headroom = headroom_of(Usage(tree), tree.index["red"], "", "H100", Amounts(1_000), idle={("H100", ""): 8_000})

    assert headroom.workers > 8


@pytest.mark.parametrize(("used", "available"), [(3, 2), (5, 0), (6, 0)])
def test_nothing_is_available_if_use_exceeds_the_limit(used: int, available: int) -> None:
    assert BindingLimit(Measure.GPU, "somewhere", 5, used).available == available


def limited(**line: Any) -> TenantQueue:
    return replace(make_queue("red"), quotas=(Quota(**line),))


@pytest.mark.parametrize(
    ("queue", "milli", "mib", "want"),
    [
        pytest.param(
            limited(limit=5_000), 1_500, 10,
            (2, BindingLimit(Measure.GPU, "queue red, class any, zone any", 5_000, 1_000)),
            id="GPUs",
        ),
        pytest.param(
            limited(limit=5_000), 1, 10,
            (4_000, BindingLimit(Measure.GPU, "queue red, class any, zone any", 5_000, 1_000)),
            id="the smallest share",
        ),
        pytest.param(
            limited(limit=5_000), 0, 0,
            (4_000, BindingLimit(Measure.GPU, "queue red, class any, zone any", 5_000, 1_000)),
            id="workers without GPUs: more than any gang has",
        ),
        pytest.param(
            replace(limited(), user_limit=4_500), 0, 0,
            (3_500, BindingLimit(Measure.GPU_OF_USER, "user ann in queue red", 4_500, 1_000)),
            id="the same for a user",
        ),
        pytest.param(
            limited(limit=500), 1, 10, (0, BindingLimit(Measure.GPU, "queue red, class any, zone any", 500, 1_000)),
            id="a limit that was lowered below what is held",
        ),
        pytest.param(
            limited(memory_limit_mib=300), 1_000, 90,
            (2, BindingLimit(Measure.MEMORY, "queue red, class any, zone any", 300, 100)), id="GPU memory",
        ),
        pytest.param(
            limited(memory_limit_mib=300), 1_000, 1,
            (200, BindingLimit(Measure.MEMORY, "queue red, class any, zone any", 300, 100)), id="memory, a MiB each",
        ),
        pytest.param(
            replace(limited(), user_limit=4_500), 1_000, 90,
            (3, BindingLimit(Measure.GPU_OF_USER, "user ann in queue red", 4_500, 1_000)), id="GPUs of a user",
        ),
        pytest.param(
            replace(limited(), user_limit=4_500), 1, 0,
            (3_500, BindingLimit(Measure.GPU_OF_USER, "user ann in queue red", 4_500, 1_000)),
            id="a user's smallest shares",
        ),
        pytest.param(
            limited(gpu_class="H100", limit=5_000), 4_000, 0,
            (1, BindingLimit(Measure.GPU, "queue red, class H100, zone any", 5_000, 1_000)), id="a line of the class",
        ),
        pytest.param(limited(gpu_class="A100", limit=0), 1, 0, (UNLIMITED, None), id="a line of another class"),
        pytest.param(limited(guaranteed=1), 1, 1, (UNLIMITED, None), id="no limit at all"),
    ],
)  # fmt: skip
def test_as_many_workers_fit_as_the_limit_leaves_room_for(
    queue: TenantQueue, milli: int, mib: int, want: tuple[int, BindingLimit | None]
) -> None:
    """One GPU and 100 MiB are held by the same user."""
    usage = Usage(tree_of(queue))
    usage.add(Charge(0, "ann", ((H100, Amounts(1_000, 100)),)))

    found = headroom_of(usage, 0, "ann", "H100", Amounts(milli, mib))

    assert (found.workers, found.binding, found.zone_workers) == (*want, {})


def test_a_user_without_a_name_is_called_none() -> None:
    usage = Usage(tree_of(replace(limited(), user_limit=0)))

    found = headroom_of(usage, 0, "", "H100", Amounts(1, 1))

    assert found.binding == BindingLimit(Measure.GPU_OF_USER, "user (none) in queue red", 0, 0)


def test_of_rules_that_leave_the_same_room_the_nearest_to_the_job_is_named() -> None:
    tree = tree_of(make_queue("top", limit=2), make_queue("red", limit=2, parent="top"))

    found = headroom_of(Usage(tree), tree.index["red"], "", "H100", Amounts(1_000, 1))

    assert (found.workers, found.binding) == (
        2,
        BindingLimit(Measure.GPU, "queue red, class any, zone any", 2_000, 0),
    )


def test_a_quota_line_of_one_zone_leaves_the_other_zones_open() -> None:
    lines = (Quota(zone="east", limit=3_000), Quota(zone="east", limit=2_000), Quota(zone="west", limit=9_000))
    tree = tree_of(
        replace(
            make_queue("top"),
            quotas=(Quota(zone="east", limit=2_000, memory_limit_mib=1), Quota(zone="west", limit=9_000)),
        ),
        replace(make_queue("red", parent="top"), quotas=lines),
    )

    found = headroom_of(Usage(tree), tree.index["red"], "", "H100", Amounts(1_000))

    assert (found.workers, found.binding) == (UNLIMITED, None)
    assert found.zone_workers == {"east": 1, "west": 9}
    assert found.zone_binding == {
        "east": BindingLimit(Measure.MEMORY, "queue top, class any, zone east", 1, 0),
        "west": BindingLimit(Measure.GPU, "queue red, class any, zone west", 9_000, 0),
    }


def lender(name: str, *lines: Quota, parent: str | None = None) -> TenantQueue:
    return replace(make_queue(name, parent=parent), quotas=lines)


ALL, OF_H100, OF_A100 = (
    Quota(gpu_class=gpu_class, guaranteed=6_000, lendable=2_000) for gpu_class in (None, "H100", "A100")
)

UNEVEN = (replace(OF_H100, lendable=5_000), replace(OF_A100, guaranteed=9_000), ALL)
LENDS_ALL = replace(OF_H100, lendable=9_000)


@pytest.mark.parametrize(
    ("lenders", "borrows"),
    [
        pytest.param([lender("b", ALL)], 6_000, id="guaranteed less lent"),
        pytest.param([lender("b", replace(ALL, lendable=9_000))], None, id="more is lent than guaranteed"),
        pytest.param([lender("b", ALL), lender("c", ALL)], 2_000, id="two queues withhold the sum"),
        pytest.param([lender("b", ALL, replace(ALL, lendable=1_000))], 5_000, id="of two lines alike the stricter one"),
        pytest.param([lender("b", ALL, OF_H100, OF_A100)], 1_000, id="lines of single classes add up below one of all"),
        pytest.param([lender("b", *UNEVEN)], 2_000, id="and bind for all though there is room in the class asked for"),
        pytest.param(
            [lender("b", LENDS_ALL, UNEVEN[1], ALL)], 3_000, id="one that lends more than it has makes up for none"
        ),
        pytest.param([lender("b", ALL, Quota(guaranteed=5_000))], 6_000, id="a line that lends all withholds nothing"),
        pytest.param([lender("b"), lender("c", ALL, parent="b")], 6_000, id="below a queue that only groups"),
        pytest.param([lender("b", ALL), lender("c", ALL, parent="b")], 6_000, id="what is withheld below is not twice"),
        pytest.param([lender("b", OF_H100)], 1_000, id="a line of the class asked for"),
        pytest.param([lender("b", OF_A100)], None, id="a line of another class"),
    ],
)
def test_a_borrower_finds_idle_gpus_minus_those_that_siblings_do_not_lend(
    lenders: list[TenantQueue], borrows: int | None
) -> None:
    """5 H100 and 5 A100 are idle; what a rule leaves of them, or None where no rule binds."""
    tree = tree_of(make_queue("a", guaranteed=0), *lenders)
    usage, idle = Usage(tree), {H100: 5_000, A100: 5_000}

    found = headroom_of(usage, 0, "", "H100", Amounts(1), idle=idle)

    assert found.workers == (UNLIMITED if borrows is None else borrows)
    room = 5_000 if borrows is None else borrows
    fits = [within_lending_limits(usage, Charge(0, "", ((H100, Amounts(milli)),)), idle) for milli in (room, room + 1)]
    assert fits == [True, borrows is None]


def test_gpus_not_lent_in_a_zone_bind_only_there() -> None:
    queues = [make_queue("a", guaranteed=0), lender("b", Quota(zone="east", guaranteed=6_000, lendable=2_000))]
    usage, idle = Usage(tree_of(*queues)), {H100: 7_000, ("H100", "west"): 50_000}

    found = headroom_of(usage, 0, "", "H100", Amounts(1_000), idle=idle)

    assert (found.workers, found.zone_workers) == (UNLIMITED, {"east": 3})
    assert found.zone_binding == {
        "east": BindingLimit(Measure.GPU, "what other queues lend, class any, zone east", 3_000, 0)
    }
    assert headroom_of(usage, 0, "", "H100", Amounts(0), idle=idle).zone_workers == {"east": 3_000}
    taken = {("H100", "west"): 1_000}
    assert within_lending_limits(usage, Charge(0, "", ((("H100", "west"), Amounts(1_000)),)), taken)
    charges = [
        ((H100, Amounts(3_000)), (("H100", "west"), Amounts(40_000))),
        ((H100, Amounts(3_001)),),
        ((("H100", "west"), Amounts(50_000)),),
    ]
    fits = [within_lending_limits(usage, Charge(0, "", amounts), idle) for amounts in charges]
    assert fits == [True, False, True]


@pytest.mark.parametrize(
    ("measure", "counter", "amount", "allowed"),
    [
        pytest.param(Measure.GPU, 0, 999, [], id="too little"),
        pytest.param(Measure.GPU, 0, 1_000, ["GPUs"], id="just enough GPUs"),
        pytest.param(Measure.MEMORY, 0, 4, [], id="too little memory"),
        pytest.param(Measure.MEMORY, 0, 5, ["memory"], id="just enough memory"),
        pytest.param(Measure.GPU_OF_USER, (0, "ann"), 1_000, ["GPUs of ann"], id="just enough for a user"),
        pytest.param(Measure.GPU_OF_USER, (0, "bob"), 1_000, [], id="enough for another user"),
        pytest.param(Measure.GPU, None, 1_000, None, id="no limit of a queue"),
    ],
)
def test_a_raised_limit_allows_the_missing_amount_and_is_restored_afterwards(
    measure: Measure, counter: int | tuple[int, str] | None, amount: int, allowed: list[str] | None
) -> None:
    """All 6 GPUs and 80 of 100 MiB are held; ann holds the 4 GPUs that a user may have."""
    lines = (Quota(gpu_class="H100", limit=6_000, memory_limit_mib=100), Quota(gpu_class="A100", limit=1_000))
    usage = Usage(
        QueueTree.of([replace(make_queue("red", user_limit=4_000), quotas=lines)], Inventory.of([make_node("n1")]))
    )
    usage.add(Charge(0, "ann", ((("H100", ""), Amounts(4_000, 40)),)))
    usage.add(Charge(0, "bob", ((("H100", ""), Amounts(2_000, 40)),)))
    asked = {
        "GPUs": Charge(0, "bob", ((("H100", ""), Amounts(1_000)),)),
        "memory": Charge(0, "bob", ((("H100", ""), Amounts(0, 25)),)),
        "GPUs of ann": Charge(0, "ann", ((("A100", ""), Amounts(1_000)),)),
    }
    before = usage.copy()
    with raised_limit(usage, BindingLimit(measure, "somewhere", 0, 0, counter), amount) as raised:
        assert [name for name, charge in asked.items() if usage.within_limits(charge)] == (allowed or [])
    assert raised == (allowed is not None)
    assert same_usage(usage, before)
    assert not any(map(usage.within_limits, asked.values()))


def of_memory(user: str, used: int) -> BindingLimit:
    return BindingLimit(Measure.MEMORY_OF_USER, f"user {user} in queue red", 100, used)


@pytest.mark.parametrize(
    ("limit", "user", "mib", "want"),
    [
        pytest.param(MEMORY, "ann", 7, (2, of_memory("ann", 80)), id="of what is left"),
        pytest.param(MEMORY, "ann", 1, (20, of_memory("ann", 80)), id="of a MiB each"),
        pytest.param(MEMORY, "ann", 0, (20, of_memory("ann", 80)), id="or of none"),
        pytest.param(MEMORY, "cid", 7, (14, of_memory("cid", 0)), id="of all of it, where nothing is held"),
        pytest.param(UserLimit(gpu_class="A100", limit=0), "ann", 7, (UNLIMITED, None), id="of another class"),
    ],
)  # fmt: skip
def test_a_users_memory_limit_bounds_the_workers_that_fit(
    limit: UserLimit, user: str, mib: int, want: tuple[int, BindingLimit | None]
) -> None:
    found = headroom_of(of_users(limit), 0, user, "H100", Amounts(1, mib))
    assert (found.workers, found.binding) == want


def test_a_raise_for_one_user_applies_to_the_line_that_names_him() -> None:
    usage = of_users(UserLimit(user="ann", limit=1_000), UserLimit(limit=400))
    limit = headroom_of(usage, 0, "ann", "H100", Amounts(1, 1)).binding
    assert limit is not None
    assert limit == BindingLimit(Measure.GPU_OF_USER, "user ann in queue red", 1_000, 1_000)
    asks = Charge(0, "ann", ((H100, Amounts(300, 1)),))
    assert usage.within_limits(asks) is False
    with raised_limit(usage, limit, 300) as is_limit:
        assert (is_limit, usage.within_limits(asks)) == (True, True)
    with raised_limit(usage, limit, 299) as is_limit:
        assert (is_limit, usage.within_limits(asks)) == (True, False)


NODES = [make_node("e", gpus=8, zone="east"), make_node("w", gpus=8, zone="west")]
BUCKETS = (("H100", "east"), ("H100", "west"))
RED = "queue red, class any, zone"


def under_guarantees(own: tuple[Quota, ...], above: tuple[Quota, ...], held: int = 0, milli: int = 1_000) -> Headroom:
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
    found = under_guarantees(own, above)

    assert (found.workers, found.zone_workers) == (workers, zones)


@pytest.mark.parametrize(("milli", "workers"), [(1_000, 2), (400, 6), (1_500, 1), (3_000, 0), (0, 2_500)])
def test_the_held_part_of_a_guarantee_is_not_available_again(milli: int, workers: int) -> None:
    found = under_guarantees((Quota(guaranteed=4_000),), WIDE, held=1_500, milli=milli)

    assert found.workers == workers
    assert found.binding is not None
    assert (found.binding.scope, found.binding.limit, found.binding.used) == (
        f"guarantee of {RED} any",
        4_000,
        1_500,
    )


def test_a_zone_in_which_nothing_is_guaranteed_is_named() -> None:
    found = under_guarantees((Quota(zone="east", guaranteed=4_000),), WIDE)

    assert found.workers < UNLIMITED
    assert (found.zone_binding["west"].scope, found.zone_binding["west"].limit) == (f"guarantee of {RED} west", 0)
