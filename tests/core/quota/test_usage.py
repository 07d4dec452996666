"""Usage of quota lines, users and zones, and what is within their limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import Quota, Topology, TopologyMode, UserLimit
from cotenant.core.model.plan import Admit, Evict, Reason
from cotenant.core.quota.tree import Bucket, QueueTree
from cotenant.core.quota.usage import Charge, Usage
from cotenant.core.scheduling.scheduler import schedule
from tests.core.quota.quota_trees import A100, H100, MEMORY, of_users, tree_of
from tests.core.worlds.held_amounts import same_usage
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot


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


def test_a_gang_lies_in_zones_as_their_quota_lines_allow() -> None:
    lines = (Quota(zone="east", limit=1_000), Quota(zone="west", limit=2_000))
    nodes = [make_node("n1", gpus=4, zone="east"), make_node("n2", gpus=4, zone="west")]
    queue = replace(make_queue("red"), quotas=lines)

    plan = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[make_job("gang", workers=3)]))
    too_many = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[make_job("gang", workers=4)]))

    assert plan.actions == (Admit(job="red/gang", placement=make_placement(("n2", [[0], [1]]), ("n1", [[0]]))),)
    assert too_many.verdicts["red/gang"].reason == Reason.EXCEEDS_LIMIT


def test_a_user_may_hold_exactly_the_limit_and_nothing_more() -> None:
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


def test_a_rack_that_is_large_enough_is_found_in_any_zone() -> None:
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


def test_room_is_made_in_a_small_rack_if_the_large_ones_are_in_an_exhausted_zone() -> None:
    lines = (Quota(zone="east", limit=2_000), Quota(zone="west", limit=0))
    nodes = [make_node(f"w{number}", gpus=4, zone="west", rack=f"r{number}") for number in range(9)]
    nodes.append(make_node("e", gpus=2, zone="east", rack="r"))
    low = make_job("low", gpus=2, placement=make_placement(("e", [[0, 1]])), admitted_at=0.0)
    high = make_job("high", workers=2, priority=5, topology=Topology("rack", TopologyMode.REQUIRED))

    plan = schedule(make_snapshot(nodes=nodes, queues=[replace(make_queue("red"), quotas=lines)], jobs=[low, high]))

    assert [action.job for action in plan.actions if isinstance(action, Evict)] == ["red/low"]


@pytest.mark.parametrize(("extra", "fits"), [(0, True), (1, False)])
def test_a_limit_is_reached_and_never_exceeded(extra: int, fits: bool) -> None:
    queue = replace(make_queue("red", guaranteed=0, limit=2), user_limit=2_000)
    queue = replace(queue, quotas=(replace(queue.quotas[0], memory_limit_mib=100),))
    tree = QueueTree.of([queue], Inventory.of([make_node("n1")]))
    usage = Usage(tree)
    usage.add(Charge(0, "ann", ((("H100", ""), Amounts(500, 40)),)))

    assert usage.within_limits(Charge(0, "ann", ((("H100", ""), Amounts(1_500 + extra, 60)),))) == fits
    assert usage.within_limits(Charge(0, "bob", ((("H100", ""), Amounts(1_500, 60 + extra)),))) == fits


@pytest.mark.parametrize(
    ("user", "milli", "fits"),
    [("ann", 1_500, True), ("ann", 1_501, False), ("bob", 2_000, True), ("bob", 2_001, False)],
)
def test_a_user_is_limited_though_his_queue_is_not(user: str, milli: int, fits: bool) -> None:
    tree = QueueTree.of([make_queue("red", guaranteed=0, user_limit=2_000)], Inventory.of([make_node("n1")]))
    usage = Usage(tree)
    usage.add(Charge(0, "ann", ((("H100", ""), Amounts(500, 40)),)))

    assert usage.within_limits(Charge(0, user, ((("H100", ""), Amounts(milli, 60)),))) == fits


def test_a_charge_counts_for_the_whole_path_and_is_taken_back_without_a_trace() -> None:
    lines = (Quota(), Quota(gpu_class="A100"))
    tree = tree_of(
        replace(make_queue("top", user_limit=9_000), quotas=lines), replace(make_queue("x", parent="top"), quotas=lines)
    )
    usage, charge = Usage(tree), Charge(1, "ann", ((H100, Amounts(2_000, 700)), (A100, Amounts(500, 40))))

    usage.add(charge)
    usage.add(Charge(0, "ann", ((A100, Amounts(100, 1)),)))

    assert usage.of_lines == ([2_600, 600, 2_500, 500], [741, 41, 740, 40])
    assert usage.class_milli == [{"H100": 2_000, "A100": 600}, {"H100": 2_000, "A100": 500}]
    assert usage.of_users == ({(0, "ann"): 2_600}, {(0, "ann"): 741})
    assert (usage.held_milli(0), usage.held_milli(1), charge.milli) == (2_600, 2_500, 2_500)

    usage.add(charge, -1)
    usage.add(Charge(0, "ann", ((A100, Amounts(100, 1)),)), -1)

    assert same_usage(usage, Usage(tree))


def test_a_job_of_no_queue_is_counted_nowhere_and_gets_nothing() -> None:
    usage = Usage(tree_of(replace(make_queue("red"), quotas=(Quota(),))))
    lost = Charge(-1, "", ((H100, Amounts(1_000, 1)),))

    usage.add(lost)

    assert usage.quota_milli == [0]
    assert not usage.within_limits(lost)
    assert usage.within_limits(replace(lost, queue=0))


@pytest.mark.parametrize(
    ("amounts", "fits"),
    [
        pytest.param(
            ((H100, Amounts(600, 60)), (A100, Amounts(400, 40))), True, id="as much as the line allows in all"
        ),
        pytest.param(((H100, Amounts(600, 60)), (A100, Amounts(401, 40))), False, id="a thousandth more in all"),
        pytest.param(((H100, Amounts(600, 60)), (A100, Amounts(400, 41))), False, id="a MiB more in all"),
        pytest.param(((("T4", ""), Amounts(1, 1)),), False, id="a class that no line grants"),
    ],
)
def test_a_line_limits_the_sum_over_all_that_it_covers(amounts: tuple[tuple[Bucket, Amounts], ...], fits: bool) -> None:
    both = Quota(limit=1_000, memory_limit_mib=100)
    top = replace(make_queue("top"), quotas=(both,))
    red = replace(make_queue("red", parent="top"), quotas=(Quota(gpu_class="H100"), Quota(gpu_class="A100")))
    tree = tree_of(top, red)

    assert Usage(tree).within_limits(Charge(tree.index["red"], "", amounts)) == fits


@pytest.mark.parametrize(
    ("limit", "user", "amounts", "fits"),
    [
        pytest.param(MEMORY, "ann", ((H100, Amounts(1, 20)),), True, id="as much memory as is left"),
        pytest.param(MEMORY, "ann", ((H100, Amounts(1, 21)),), False, id="not a MiB more"),
        pytest.param(
            MEMORY, "ann", ((H100, Amounts(1, 10)), (A100, Amounts(1, 10))), True, id="of all classes together"
        ),
        pytest.param(MEMORY, "ann", ((H100, Amounts(1, 10)), (A100, Amounts(1, 11))), False, id="and not more"),
        pytest.param(MEMORY, "cid", ((H100, Amounts(1, 100)),), True, id="all of it, where nothing is held"),
        pytest.param(MEMORY, "cid", ((H100, Amounts(1, 101)),), False, id="and no more than all"),
        pytest.param(MEMORY, "bob", ((H100, Amounts(1, 100)),), True, id="what was given back"),
        pytest.param(MEMORY, "bob", ((H100, Amounts(1, 101)),), False, id="and not more than that"),
        pytest.param(
            replace(MEMORY, gpu_class="H100"), "ann", ((H100, Amounts(1, 60)),), True, id="of the class of the line"
        ),
        pytest.param(replace(MEMORY, gpu_class="H100"), "ann", ((H100, Amounts(1, 61)),), False, id="up to its limit"),
        pytest.param(
            replace(MEMORY, gpu_class="H100"), "ann", ((A100, Amounts(1, 999)),), True, id="of others as one likes"
        ),
        pytest.param(
            replace(MEMORY, user="ann"), "bob", ((H100, Amounts(1, 999)),), True, id="a line is that of whom it names"
        ),
    ],
)
def test_the_memory_a_user_holds_is_limited(
    limit: UserLimit, user: str, amounts: tuple[tuple[Bucket, Amounts], ...], fits: bool
) -> None:
    assert of_users(limit).within_limits(Charge(0, user, amounts)) is fits
