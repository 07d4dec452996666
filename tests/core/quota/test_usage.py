"""Limits and lending limits of quota lines, users and zones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core import schedule
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import Quota, TenantQueue, Topology, TopologyMode
from cotenant.core.model.plan import Admit, Evict, Reason
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import UNLIMITED, BindingLimit, Charge, Usage
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot


def admitted(plan: object) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Admit)]  # type: ignore[attr-defined]


def test_every_line_that_matches_must_allow_it() -> None:
    lines = (
        Quota(limit=4_000),
        Quota(gpu_class="H100", limit=2_000),
        Quota(zone="east", limit=1_000),
    )
    nodes = [make_node("n1", gpus=4, zone="east"), make_node("n2", gpus=4, zone="west")]
    jobs = [make_job(f"j{index}", at=index, zones=("east",) if index < 2 else ()) for index in range(5)]

    plan = schedule(make_snapshot(nodes=nodes, queues=[replace(make_queue("red"), quotas=lines)], jobs=jobs))

    assert admitted(plan) == ["red/j0", "red/j2"]
    assert dict(plan.verdicts["red/j1"].evidence)["scope"] == "queue red, class any, zone east"
    assert dict(plan.verdicts["red/j4"].evidence)["scope"] == "queue red, class H100, zone any"


def test_a_gang_is_spread_over_zones_as_their_lines_allow() -> None:
    lines = (Quota(zone="east", limit=1_000), Quota(zone="west", limit=2_000))
    nodes = [make_node("n1", gpus=4, zone="east"), make_node("n2", gpus=4, zone="west")]
    queue = replace(make_queue("red"), quotas=lines)

    plan = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[make_job("gang", workers=3)]))
    too_many = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[make_job("gang", workers=4)]))

    assert plan.actions == (Admit(job="red/gang", placement=make_placement(("n2", [[0], [1]]), ("n1", [[0]]))),)
    assert too_many.verdicts["red/gang"].reason == Reason.EXCEEDS_LIMIT


def test_a_user_may_hold_all_of_the_limit_and_not_a_thousandth_more() -> None:
    queue = replace(make_queue("red", guaranteed=4), user_limit=1_000)
    jobs = [
        make_job("a", user="ann", at=1),
        make_job("b", user="bob", milli=999, at=2),
        make_job("c", user="bob", milli=2, at=3),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[queue], jobs=jobs))

    assert admitted(plan) == ["red/a", "red/b"]


def test_a_user_has_a_limit_of_his_own() -> None:
    queue = replace(make_queue("red", guaranteed=4), user_limit=1_500)
    jobs = [
        make_job("a", user="ann", milli=1_000, at=1),
        make_job("b", user="ann", milli=600, at=2),
        make_job("c", user="bob", milli=600, at=3),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[queue], jobs=jobs))

    assert admitted(plan) == ["red/a", "red/c"]
    assert plan.verdicts["red/b"].message == (
        "Needs 0.6 GPU, together 0.6 GPU; user ann in queue red: limit 1.5 GPU, used 1 GPU, available 0.5 GPU."
    )


def test_gpu_memory_has_a_limit_too() -> None:
    queue = replace(make_queue("red"), quotas=(Quota(memory_limit_mib=100_000),))
    jobs = [make_job("a", at=1), make_job("b", at=2)]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[queue], jobs=jobs))

    assert admitted(plan) == ["red/a"]
    assert dict(plan.verdicts["red/b"].evidence)["metric"] == "GPU memory"


def test_what_a_queue_does_not_lend_stays_free_for_it() -> None:
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=3, lendable=1)]
    jobs = [make_job(f"r{index}", at=index) for index in range(4)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=queues, jobs=jobs))

    assert admitted(plan) == ["red/r0", "red/r1"]
    assert plan.verdicts["red/r2"].reason == Reason.WAITING_FOR_QUOTA


def test_a_rack_is_found_in_whichever_zone_has_one_that_is_large_enough() -> None:
    """East is the tighter zone, but its racks are too small; west's line leaves room for one of its two racks."""
    lines = (Quota(zone="east", limit=4_000), Quota(zone="west", limit=4_000))
    nodes = [
        make_node(f"{zone}-{number}", gpus=gpus, zone=zone, rack=f"r{number % 2}")
        for zone, gpus in (("east", 1), ("west", 2))
        for number in range(4)
    ]
    gang = make_job("gang", workers=4, topology=Topology("rack", TopologyMode.REQUIRED))

    plan = schedule(make_snapshot(nodes=nodes, queues=[replace(make_queue("red"), quotas=lines)], jobs=[gang]))

    (action,) = plan.actions
    assert isinstance(action, Admit)
    assert {part.node for part in action.placement.nodes} in ({"west-0", "west-2"}, {"west-1", "west-3"})


def test_room_is_made_in_a_small_rack_where_the_large_ones_are_in_a_zone_that_is_used_up() -> None:
    lines = (Quota(zone="east", limit=2_000), Quota(zone="west", limit=0))
    nodes = [make_node(f"w{number}", gpus=4, zone="west", rack=f"r{number}") for number in range(9)]
    nodes.append(make_node("e", gpus=2, zone="east", rack="r"))
    low = make_job("low", gpus=2, placement=make_placement(("e", [[0, 1]])), admitted_at=0.0)
    high = make_job("high", workers=2, priority=5, topology=Topology("rack", TopologyMode.REQUIRED))

    plan = schedule(make_snapshot(nodes=nodes, queues=[replace(make_queue("red"), quotas=lines)], jobs=[low, high]))

    assert [action.job for action in plan.actions if isinstance(action, Evict)] == ["red/low"]


def test_a_borrower_may_take_what_is_idle_less_what_others_withhold() -> None:
    """8 idle, blue guarantees 6, lends 2, uses 1: 3 are withheld, red may take 5."""
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=6, lendable=2)]
    tree = QueueTree.of(queues, Inventory.of([make_node("n1", gpus=9)]))
    usage, red, bucket = Usage(tree), tree.index["red"], ("H100", "")
    usage.add(Charge(tree.index["blue"], "", ((bucket, 1_000, 0),)))
    idle = {bucket: 8_000}

    headroom = usage.headroom(red, "", "H100", milli=1_000, mib=0, idle=idle)

    limit = BindingLimit("GPU", "what other queues lend, class any, zone any", 5_000, 0)
    assert (headroom.workers, headroom.binding) == (5, limit)
    assert usage.within_lending_limits(Charge(red, "", ((bucket, 5_000, 0),)), idle)
    assert not usage.within_lending_limits(Charge(red, "", ((bucket, 5_001, 0),)), idle)


def test_a_queue_withholds_nothing_from_its_own_subtree() -> None:
    queues = [make_queue("top", guaranteed=6, lendable=0), make_queue("red", guaranteed=0, parent="top")]
    tree = QueueTree.of(queues, Inventory.of([make_node("n1", gpus=8)]))

    headroom = Usage(tree).headroom(tree.index["red"], "", "H100", milli=1_000, mib=0, idle={("H100", ""): 8_000})

    assert headroom.workers > 8


@pytest.mark.parametrize(("extra", "fits"), [(0, True), (1, False)])
def test_a_limit_is_reached_and_not_passed(extra: int, fits: bool) -> None:
    queue = replace(make_queue("red", guaranteed=0, limit=2), user_limit=2_000)
    queue = replace(queue, quotas=(replace(queue.quotas[0], memory_limit_mib=100),))
    tree = QueueTree.of([queue], Inventory.of([make_node("n1")]))
    usage = Usage(tree)
    usage.add(Charge(0, "ann", ((("H100", ""), 500, 40),)))

    assert usage.within_limits(Charge(0, "ann", ((("H100", ""), 1_500 + extra, 60),))) == fits
    assert usage.within_limits(Charge(0, "bob", ((("H100", ""), 1_500, 60 + extra),))) == fits


@pytest.mark.parametrize(
    ("user", "milli", "fits"),
    [("ann", 1_500, True), ("ann", 1_501, False), ("bob", 2_000, True), ("bob", 2_001, False)],
)
def test_a_user_is_limited_though_his_queue_is_not(user: str, milli: int, fits: bool) -> None:
    tree = QueueTree.of([make_queue("red", guaranteed=0, user_limit=2_000)], Inventory.of([make_node("n1")]))
    usage = Usage(tree)
    usage.add(Charge(0, "ann", ((("H100", ""), 500, 40),)))

    assert usage.within_limits(Charge(0, user, ((("H100", ""), milli, 60),))) == fits


def changed(part: str) -> Usage:
    """Usage of one job, with one of its parts other than it was counted."""
    tree = QueueTree.of([make_queue("red", guaranteed=2, user_limit=9_000)], Inventory.of([make_node("n1")]))
    usage = Usage(tree)
    usage.add(Charge(0, "ann", ((("H100", ""), 1_000, 81_920),)))
    match part:
        case "milli of a line":
            usage.quota_milli[0] += 1
        case "memory of a line":
            usage.quota_mib[0] += 1
        case "a class":
            usage.class_milli[0]["H100"] += 1
        case "another class":
            usage.class_milli[0]["A100"] = 1
        case "a user":
            usage.user_milli[0, "ann"] += 1
        case "a class and a user that hold nothing":
            usage.class_milli[0]["A100"] = 0
            usage.user_milli[0, "bob"] = 0
    return usage


@pytest.mark.parametrize("part", ["milli of a line", "memory of a line", "a class", "another class", "a user"])
def test_usages_are_not_the_same_that_differ_in(part: str) -> None:
    assert not changed(part).same(changed("nothing"))
    assert not changed("nothing").same(changed(part))


@pytest.mark.parametrize("part", ["nothing", "a class and a user that hold nothing"])
def test_usages_are_the_same_that_differ_in(part: str) -> None:
    assert changed(part).same(changed("nothing"))
    assert changed("nothing").same(changed(part))


def tree_of(*queues: TenantQueue) -> QueueTree:
    return QueueTree.of(
        queues, Inventory.of([make_node("h", gpus=20, zone="east"), make_node("a", gpus=20, gpu_class="A100")])
    )


H100, A100 = ("H100", "east"), ("A100", "")


def test_a_charge_counts_for_the_whole_path_and_is_taken_back_without_a_trace() -> None:
    lines = (Quota(), Quota(gpu_class="A100"))
    tree = tree_of(
        replace(make_queue("top", user_limit=9_000), quotas=lines), replace(make_queue("x", parent="top"), quotas=lines)
    )
    usage, charge = Usage(tree), Charge(1, "ann", ((H100, 2_000, 700), (A100, 500, 40)))

    usage.add(charge)
    usage.add(Charge(0, "ann", ((A100, 100, 1),)))

    assert usage.quota_milli == [2_600, 600, 2_500, 500]
    assert usage.quota_mib == [741, 41, 740, 40]
    assert usage.class_milli == [{"H100": 2_000, "A100": 600}, {"H100": 2_000, "A100": 500}]
    assert usage.user_milli == {(0, "ann"): 2_600}
    assert (usage.held_milli(0), usage.held_milli(1), charge.milli) == (2_600, 2_500, 2_500)

    usage.add(charge, -1)
    usage.add(Charge(0, "ann", ((A100, 100, 1),)), -1)

    assert usage.same(Usage(tree))


def test_what_belongs_to_no_queue_is_counted_nowhere_and_allowed_nothing() -> None:
    usage = Usage(tree_of(replace(make_queue("red"), quotas=(Quota(),))))
    lost = Charge(-1, "", ((H100, 1_000, 1),))

    usage.add(lost)

    assert usage.quota_milli == [0]
    assert not usage.within_limits(lost)
    assert usage.within_limits(replace(lost, queue=0))


@pytest.mark.parametrize(
    ("amounts", "fits"),
    [
        pytest.param(((H100, 600, 60), (A100, 400, 40)), True, id="as much as the line allows in all"),
        pytest.param(((H100, 600, 60), (A100, 401, 40)), False, id="a thousandth more in all"),
        pytest.param(((H100, 600, 60), (A100, 400, 41)), False, id="a MiB more in all"),
        pytest.param(((("T4", ""), 1, 1),), False, id="a class that no line grants"),
    ],
)
def test_a_line_limits_the_sum_over_all_that_it_covers(
    amounts: tuple[tuple[tuple[str, str], int, int], ...], fits: bool
) -> None:
    both = Quota(limit=1_000, memory_limit_mib=100)
    top = replace(make_queue("top"), quotas=(both,))
    red = replace(make_queue("red", parent="top"), quotas=(Quota(gpu_class="H100"), Quota(gpu_class="A100")))
    tree = tree_of(top, red)

    assert Usage(tree).within_limits(Charge(tree.index["red"], "", amounts)) == fits


@pytest.mark.parametrize(("used", "available"), [(3, 2), (5, 0), (6, 0)])
def test_nothing_is_available_where_more_is_used_than_the_limit(used: int, available: int) -> None:
    assert BindingLimit("GPU", "somewhere", 5, used).available == available


def limited(**line: Any) -> TenantQueue:
    return replace(make_queue("red"), quotas=(Quota(**line),))


@pytest.mark.parametrize(
    ("queue", "milli", "mib", "want"),
    [
        pytest.param(
            limited(limit=5_000), 1_500, 10, (2, BindingLimit("GPU", "queue red, class any, zone any", 5_000, 1_000)),
            id="GPUs",
        ),
        pytest.param(
            limited(limit=5_000), 1, 10, (4_000, BindingLimit("GPU", "queue red, class any, zone any", 5_000, 1_000)),
            id="the smallest share",
        ),
        pytest.param(
            limited(limit=5_000), 0, 0, (4_000, BindingLimit("GPU", "queue red, class any, zone any", 5_000, 1_000)),
            id="workers without GPUs: more than any gang has",
        ),
        pytest.param(
            replace(limited(), user_limit=4_500), 0, 0,
            (3_500, BindingLimit("GPU per user", "user ann in queue red", 4_500, 1_000)), id="the same for a user",
        ),
        pytest.param(
            limited(limit=500), 1, 10, (0, BindingLimit("GPU", "queue red, class any, zone any", 500, 1_000)),
            id="a limit that was lowered below what is held",
        ),
        pytest.param(
            limited(memory_limit_mib=300), 1_000, 90,
            (2, BindingLimit("GPU memory", "queue red, class any, zone any", 300, 100)), id="GPU memory",
        ),
        pytest.param(
            limited(memory_limit_mib=300), 1_000, 1,
            (200, BindingLimit("GPU memory", "queue red, class any, zone any", 300, 100)), id="memory, a MiB each",
        ),
        pytest.param(
            replace(limited(), user_limit=4_500), 1_000, 90,
            (3, BindingLimit("GPU per user", "user ann in queue red", 4_500, 1_000)), id="GPUs of a user",
        ),
        pytest.param(
            replace(limited(), user_limit=4_500), 1, 0,
            (3_500, BindingLimit("GPU per user", "user ann in queue red", 4_500, 1_000)), id="a user's smallest shares",
        ),
        pytest.param(
            limited(gpu_class="H100", limit=5_000), 4_000, 0,
            (1, BindingLimit("GPU", "queue red, class H100, zone any", 5_000, 1_000)), id="a line of the class",
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
    usage.add(Charge(0, "ann", ((H100, 1_000, 100),)))

    found = usage.headroom(0, "ann", "H100", milli=milli, mib=mib)

    assert (found.workers, found.binding, found.zone_workers) == (*want, {})


def test_the_user_without_a_name_is_named_so() -> None:
    usage = Usage(tree_of(replace(limited(), user_limit=0)))

    found = usage.headroom(0, "", "H100", milli=1, mib=1)

    assert found.binding == BindingLimit("GPU per user", "user (none) in queue red", 0, 0)


def test_of_rules_that_leave_the_same_room_the_one_nearest_to_the_job_is_named() -> None:
    tree = tree_of(make_queue("top", limit=2), make_queue("red", limit=2, parent="top"))

    found = Usage(tree).headroom(tree.index["red"], "", "H100", milli=1_000, mib=1)

    assert (found.workers, found.binding) == (2, BindingLimit("GPU", "queue red, class any, zone any", 2_000, 0))


def test_a_line_of_a_zone_leaves_the_other_zones_open() -> None:
    lines = (Quota(zone="east", limit=3_000), Quota(zone="east", limit=2_000), Quota(zone="west", limit=9_000))
    tree = tree_of(
        replace(
            make_queue("top"),
            quotas=(Quota(zone="east", limit=2_000, memory_limit_mib=1), Quota(zone="west", limit=9_000)),
        ),
        replace(make_queue("red", parent="top"), quotas=lines),
    )

    found = Usage(tree).headroom(tree.index["red"], "", "H100", milli=1_000, mib=0)

    assert (found.workers, found.binding) == (UNLIMITED, None)
    assert found.zone_workers == {"east": 1, "west": 9}
    assert found.zone_binding == {
        "east": BindingLimit("GPU memory", "queue top, class any, zone east", 1, 0),
        "west": BindingLimit("GPU", "queue red, class any, zone west", 9_000, 0),
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
def test_a_borrower_finds_what_is_idle_less_what_no_queue_beside_it_lends(
    lenders: list[TenantQueue], borrows: int | None
) -> None:
    """5 H100 and 5 A100 are idle; what a rule leaves of them, or None where no rule binds."""
    tree = tree_of(make_queue("a", guaranteed=0), *lenders)
    usage, idle = Usage(tree), {H100: 5_000, A100: 5_000}

    found = usage.headroom(0, "", "H100", milli=1, mib=0, idle=idle)

    assert found.workers == (UNLIMITED if borrows is None else borrows)
    room = 5_000 if borrows is None else borrows
    fits = [usage.within_lending_limits(Charge(0, "", ((H100, milli, 0),)), idle) for milli in (room, room + 1)]
    assert fits == [True, borrows is None]


def test_what_a_zone_does_not_lend_binds_there_alone() -> None:
    queues = [make_queue("a", guaranteed=0), lender("b", Quota(zone="east", guaranteed=6_000, lendable=2_000))]
    usage, idle = Usage(tree_of(*queues)), {H100: 7_000, ("H100", "west"): 50_000}

    found = usage.headroom(0, "", "H100", milli=1_000, mib=0, idle=idle)

    assert (found.workers, found.zone_workers) == (UNLIMITED, {"east": 3})
    assert found.zone_binding == {"east": BindingLimit("GPU", "what other queues lend, class any, zone east", 3_000, 0)}
    assert usage.headroom(0, "", "H100", milli=0, mib=0, idle=idle).zone_workers == {"east": 3_000}
    taken = {("H100", "west"): 1_000}
    assert usage.within_lending_limits(Charge(0, "", ((("H100", "west"), 1_000, 0),)), taken)
    charges = [((H100, 3_000, 0), (("H100", "west"), 40_000, 0)), ((H100, 3_001, 0),), ((("H100", "west"), 50_000, 0),)]
    fits = [usage.within_lending_limits(Charge(0, "", amounts), idle) for amounts in charges]
    assert fits == [True, False, True]


@pytest.mark.parametrize(
    ("metric", "scope", "amount", "allowed"),
    [
        pytest.param("GPU", "queue red, class H100, zone any", 999, [], id="too little"),
        pytest.param("GPU", "queue red, class H100, zone any", 1_000, ["GPUs"], id="just enough GPUs"),
        pytest.param("GPU memory", "queue red, class H100, zone any", 4, [], id="too little memory"),
        pytest.param("GPU memory", "queue red, class H100, zone any", 5, ["memory"], id="just enough memory"),
        pytest.param("GPU per user", "user ann in queue red", 1_000, ["GPUs of ann"], id="just enough for a user"),
        pytest.param("GPU per user", "user bob in queue red", 1_000, [], id="enough for another user"),
        pytest.param("GPU", "queue blue, class H100, zone any", 1_000, None, id="a limit that is not there"),
    ],
)
def test_a_limit_that_is_raised_allows_what_is_missing_and_is_as_before_afterwards(
    metric: str, scope: str, amount: int, allowed: list[str] | None
) -> None:
    """All 6 GPUs and 80 of 100 MiB are held; ann holds the 4 GPUs that a user may have."""
    lines = (Quota(gpu_class="H100", limit=6_000, memory_limit_mib=100), Quota(gpu_class="A100", limit=1_000))
    usage = Usage(
        QueueTree.of([replace(make_queue("red", user_limit=4_000), quotas=lines)], Inventory.of([make_node("n1")]))
    )
    usage.add(Charge(0, "ann", ((("H100", ""), 4_000, 40),)))
    usage.add(Charge(0, "bob", ((("H100", ""), 2_000, 40),)))
    asked = {
        "GPUs": Charge(0, "bob", ((("H100", ""), 1_000, 0),)),
        "memory": Charge(0, "bob", ((("H100", ""), 0, 25),)),
        "GPUs of ann": Charge(0, "ann", ((("A100", ""), 1_000, 0),)),
    }
    before = usage.copy()
    with usage.with_more(0, BindingLimit(metric, scope, 0, 0), amount) as raised:
        assert [name for name, charge in asked.items() if usage.within_limits(charge)] == (allowed or [])
    assert raised == (allowed is not None)
    assert usage.same(before)
    assert not any(map(usage.within_limits, asked.values()))
