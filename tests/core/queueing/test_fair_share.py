"""Guarantees and dominant shares, which decide the next turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.allocation.request import Request, options_of
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import Job, Quota
from cotenant.core.model.plan import Admit
from cotenant.core.policy import Policy
from cotenant.core.queueing.fair_share import (
    DominantShares,
    borrowed,
    charge_within_guarantee,
    past_shares,
    within_guarantee,
)
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge, Usage
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import DecayedBorrowing
from tests.support.clusters import make_job, make_node, make_queue, make_snapshot


def admitted(plan: object) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Admit)]  # type: ignore[attr-defined]


def test_the_smaller_weighted_share_of_what_is_borrowed_goes_first() -> None:
    queues = [replace(make_queue("heavy", guaranteed=0), weight=3), make_queue("light", guaranteed=0)]
    jobs = [make_job(f"{queue.name[0]}{index}", queue=queue.name, at=index) for queue in queues for index in range(8)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=queues, jobs=jobs))

    assert len([key for key in admitted(plan) if key.startswith("heavy/")]) == 6


def test_shares_are_compared_level_by_level() -> None:
    """Two teams of one department count together against the other department."""
    queues = [
        make_queue("dept-a", guaranteed=0),
        make_queue("dept-b", guaranteed=0),
        make_queue("a1", guaranteed=0, parent="dept-a"),
        make_queue("a2", guaranteed=0, parent="dept-a"),
        make_queue("b1", guaranteed=0, parent="dept-b"),
    ]
    jobs = [make_job(f"j{index}", queue=name, at=index) for name in ("a1", "a2", "b1") for index in range(8)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=queues, jobs=jobs))

    counts = {name: len([key for key in admitted(plan) if key.startswith(name)]) for name in ("a1", "a2", "b1")}
    assert counts == {"a1": 2, "a2": 2, "b1": 4}


@pytest.mark.parametrize(
    ("gpus", "percent", "share"),
    [
        pytest.param(2, 100, 346_573, id="of two GPUs"),
        pytest.param(2, 50, 173_286, id="at half its weight"),
        pytest.param(0, 100, 693_147, id="of a cluster that has lost all its GPUs, as of one"),
    ],
)
def test_past_borrowing_counts_as_an_average_over_the_time_its_half_life_looks_back(
    gpus: int, percent: int, share: int
) -> None:
    """Four GPU-seconds at a half-life of four seconds are ln 2 of a GPU."""
    past = DecayedBorrowing(queue="red", milli_seconds=4_000.0, half_life_s=4.0)
    nodes = [make_node("n1", gpus=gpus)]

    snapshot = make_snapshot(nodes=nodes, queues=[make_queue("red")], jobs=[], usage_history=(past,))

    assert past_shares(snapshot, Policy(share_history_percent=percent)) == {"red": share}


H100, A100, T4 = Quota(gpu_class="H100"), Quota(gpu_class="A100"), Quota(gpu_class="T4")
ANY = Quota()
CLASSES = [make_node(name, gpus=gpus, gpu_class=name) for name, gpus in (("H100", 16), ("A100", 8), ("T4", 4))]


def usage_of(lines: Sequence[Quota], held: Mapping[str, int], **changes: Any) -> Usage:
    """One queue with these lines holds so many milli-GPU of each class; the cluster has 16 H100, 8 A100 and 4 T4."""
    queue = replace(make_queue("red", **changes), quotas=tuple(lines))
    usage = Usage(QueueTree.of([queue], Inventory.of(CLASSES)))
    for gpu_class, milli in held.items():
        usage.add(Charge(0, "", (((gpu_class, ""), Amounts(milli)),)))
    return usage


@pytest.mark.parametrize(
    ("lines", "held", "above"),
    [
        pytest.param([ANY], {"H100": 3_000, "A100": 500}, {"H100": 3_000, "A100": 500}, id="nothing is guaranteed"),
        pytest.param(
            [replace(H100, guaranteed=2_000)],
            {"H100": 3_000, "A100": 500},
            {"H100": 1_000, "A100": 500},
            id="of one class",
        ),
        pytest.param([replace(H100, guaranteed=3_000)], {"H100": 3_000}, {}, id="just the guarantee"),
        pytest.param([replace(H100, guaranteed=3_000)], {"H100": 3_001}, {"H100": 1}, id="a thousandth above it"),
        pytest.param(
            [replace(H100, guaranteed=1_000)] * 2, {"H100": 3_000}, {"H100": 1_000}, id="two lines of a class add up"
        ),
        pytest.param(
            [replace(ANY, guaranteed=3_000)],
            {"H100": 2_000, "A100": 2_000},
            {None: 1_000},
            id="of all classes together",
        ),
        pytest.param([replace(ANY, guaranteed=4_000)], {"H100": 2_000, "A100": 2_000}, {}, id="just that, in all"),
        pytest.param(
            [replace(ANY, guaranteed=3_999)], {"H100": 2_000, "A100": 2_000}, {None: 1}, id="a thousandth above, in all"
        ),
        pytest.param(
            [replace(ANY, guaranteed=4_000), replace(H100, limit=3_000)],
            {"H100": 2_000, "A100": 2_000},
            {},
            id="a line that only limits a class, inside what another line guarantees",
        ),
        pytest.param(
            [replace(ANY, guaranteed=3_000), replace(H100, limit=3_000)],
            {"H100": 2_000, "A100": 2_000},
            {None: 1_000},
            id="a line that only limits a class, beyond what another line guarantees",
        ),
        pytest.param(
            [replace(ANY, guaranteed=1_000)] * 2, {"H100": 3_000}, {None: 1_000}, id="two lines of all add up"
        ),
        pytest.param(
            [replace(ANY, guaranteed=3_000), replace(H100, guaranteed=1_000)],
            {"H100": 2_000, "A100": 2_000},
            {None: 1_000, "H100": 1_000},
            id="of all, and of one class",
        ),
        pytest.param(
            [replace(ANY, guaranteed=1_000), replace(H100, guaranteed=2_000)],
            {"H100": 2_000, "A100": 500},
            {None: 500},
            id="classes that are guaranteed more than all",
        ),
    ],
)
def test_gpus_held_above_the_guarantee_are_borrowed(
    lines: list[Quota], held: dict[str, int], above: dict[str | None, int]
) -> None:
    assert borrowed(usage_of(lines, held), 0) == above


@pytest.mark.parametrize(
    ("held", "past", "weight", "share"),
    [
        pytest.param({}, 0, 1, 0, id="nothing"),
        pytest.param({"H100": 4_000}, 0, 2, 125_000, id="four of sixteen, weight two"),
        pytest.param({"H100": 4_000, "T4": 2_000}, 0, 1, 500_000, id="the class with the larger part"),
        pytest.param({"H100": 4_000}, 50_000, 1, 300_000, id="the past on top"),
        pytest.param({}, 50_000, 2, 25_000, id="the past alone"),
        pytest.param({}, 0, 0, 0, id="weight 0, and nothing borrowed"),
        pytest.param({"missing": 1}, 0, 1, 1_000_000, id="of a class that is all gone"),
    ],
)
def test_the_share_is_the_largest_borrowed_part_of_a_class_divided_by_the_weight(
    held: dict[str, int], past: int, weight: int, share: int
) -> None:
    usage = usage_of([ANY], held, weight=weight)

    assert DominantShares(usage.tree, {"red": past, "other": 7}).share(usage, 0) == share


def test_a_quota_line_without_a_class_is_measured_over_all_gpus() -> None:
    """14 of 28 GPUs borrowed."""
    usage = usage_of([replace(ANY, guaranteed=1_000)], {"H100": 15_000})

    assert DominantShares(usage.tree, {}).share(usage, 0) == 500_000


def test_shares_can_be_computed_without_gpus() -> None:
    tree = QueueTree.of([replace(make_queue("red"), quotas=(replace(ANY, guaranteed=1_000),))], Inventory.of([]))
    usage = Usage(tree)
    usage.add(Charge(0, "", ((("H100", ""), Amounts(3)),)))

    assert DominantShares(tree, {}).share(usage, 0) == 3_000_000


def test_a_queue_of_weight_0_that_borrows_goes_after_every_positive_weight() -> None:
    little, much = usage_of([ANY], {"H100": 1}, weight=0), usage_of([ANY], {"T4": 4_000_000}, weight=1)
    more = usage_of([ANY], {"H100": 1_000}, weight=0)
    shares = [DominantShares(usage.tree, {}).share(usage, 0) for usage in (much, little, more)]

    assert shares == sorted(set(shares))


@pytest.mark.parametrize(
    ("amounts", "on_top", "counted"),
    [
        pytest.param((("H100", 1_000),), True, True, id="all that is left"),
        pytest.param((("H100", 1_001),), False, True, id="a thousandth more"),
        pytest.param((("A100", 1_000),), False, False, id="a class of which more is held already"),
        pytest.param((("T4", 1),), False, False, id="a class of which nothing is guaranteed"),
        pytest.param((("H100", 600), ("H100", 400)), True, True, id="two parts of all that is left"),
        pytest.param((("H100", 600), ("H100", 401)), False, True, id="two parts of more than is left"),
        pytest.param((("H100", 1), ("A100", 1)), False, False, id="one part of two inside"),
    ],
)
def test_a_charge_lies_inside_the_guarantee_as_a_whole_or_not_at_all(
    amounts: tuple[tuple[str, int], ...], on_top: bool, counted: bool
) -> None:
    """One of two guaranteed H100 is held, and two A100 for one guaranteed. T4 have a limit and no guarantee."""
    lines = [replace(H100, guaranteed=2_000), replace(A100, guaranteed=1_000), replace(T4, limit=4_000)]
    usage = usage_of(lines, {"H100": 1_000, "A100": 2_000})
    charge = Charge(0, "", tuple(((gpu_class, ""), Amounts(milli)) for gpu_class, milli in amounts))

    assert charge_within_guarantee(usage, 0, charge, is_counted=False) is on_top
    assert charge_within_guarantee(usage, 0, charge, is_counted=True) is counted


@pytest.mark.parametrize(
    ("lines", "held", "job", "inside"),
    [
        pytest.param([], {}, make_job("a"), False, id="nothing is guaranteed"),
        pytest.param([replace(H100, guaranteed=2_000)], {"H100": 1_000}, make_job("a"), True, id="just the guarantee"),
        pytest.param(
            [replace(H100, guaranteed=2_000)],
            {"H100": 1_000},
            make_job("a", workers=2),
            False,
            id="a gang counts whole",
        ),
        pytest.param(
            [replace(H100, guaranteed=2_000)], {"H100": 1_001}, make_job("a"), False, id="a thousandth too much"
        ),
        pytest.param(
            [replace(A100, guaranteed=2_000)], {}, make_job("a", classes=("H100",)), False, id="another class"
        ),
        pytest.param(
            [replace(H100, guaranteed=1_000), replace(A100, guaranteed=1_000)],
            {"H100": 1_000},
            make_job("a"),
            True,
            id="one of two classes that would do",
        ),
        pytest.param(
            [replace(ANY, guaranteed=3_000), replace(H100, guaranteed=1_000)],
            {"H100": 1_000},
            make_job("a", classes=("H100",)),
            False,
            id="one of two lines that count it",
        ),
    ],
)
def test_a_gang_is_inside_a_guarantee_only_if_every_possible_place_counts(
    lines: list[Quota], held: dict[str, int], job: Job, inside: bool
) -> None:
    usage = usage_of([*lines, ANY], held)
    inventory = Inventory.of(CLASSES)
    request = Request.of(job, options_of(job, inventory, usage.tree), usage.tree)

    assert within_guarantee(usage, request, 0) is inside


@pytest.mark.parametrize(("held", "inside"), [(2_000, True), (2_001, False)])
def test_a_guarantee_covers_held_gpus_to_the_thousandth(held: int, inside: bool) -> None:
    usage = usage_of([replace(H100, guaranteed=2_000)], {"H100": held})

    assert charge_within_guarantee(usage, 0, Charge(0, "", ((("H100", ""), Amounts(500)),)), is_counted=True) is inside
