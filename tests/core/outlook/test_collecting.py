"""Collecting in a play: who is overdue, and which places are kept."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from cotenant.core import Policy
from cotenant.core.actions.backfill import Reservations
from cotenant.core.actions.eviction_rules import EvictionRules
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.outlook.collecting import Collecting
from cotenant.core.outlook.played_cluster import PlayedCluster
from cotenant.core.placement import BestFit
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot

NOW = 10_000.0
POLICY = Policy(placer=BestFit(), collect_after_s=1_000, protected_runtime_s=100)
QUEUES = (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=1))


def busy(name: str, column: int, **changes: Any) -> Job:
    """Since 1,000 s."""
    return make_job(name, placement=make_placement(("n1", [[column]])), admitted_at=NOW - 1_000, **changes)


class World:
    def __init__(self, *jobs: Job, queues: tuple[TenantQueue, ...] = QUEUES, policy: Policy = POLICY) -> None:
        node = make_node("n1", gpus=4)
        taken = make_snapshot(nodes=[node], queues=list(queues), jobs=list(jobs), now=NOW)
        cycle = Cycle.open(taken, policy)
        self.cluster = PlayedCluster(cycle, lambda *_: 500.0, RequestResolver(cycle.inventory, cycle.tree).resolve)
        for key, job in cycle.running.by_key.items():
            self.cluster.hold(job, cycle.running.allocations[key], job.admitted_at or NOW)
        self.waiting: dict[str, tuple[Job, Request]] = {}
        for entry in cycle.entries:
            request = self.cluster.wait(entry.job)
            assert request is not None
            self.waiting[entry.job.key.partition("/")[2]] = entry.job, request
        self.collecting = Collecting(self.cluster, EvictionRules(cycle.tree, policy, self.cluster.moment))
        self.reservations = Reservations(self.cluster.moment, policy.reserve_within_s)

    def keep(self, name: str, *, for_quota: bool = False) -> bool:
        return self.collecting.keep_place(*self.waiting[name], self.reservations, for_quota=for_quota)

    @property
    def free(self) -> list[int]:
        return self.cluster.occupancy.ledger.free_compute[0].tolist()  # type: ignore[no-any-return]


def overdue(world: World) -> tuple[list[str], list[str]]:
    entitled, borrowers = world.collecting.overdue(world.waiting.values())
    return [one.job.key for one in entitled], [one.job.key for one in borrowers]


def test_who_waits_too_long_is_overdue_the_longest_wait_first_and_who_has_to_borrow_apart() -> None:
    jobs = [
        make_job("second", gpus=1, at=8_000.0),
        make_job("first", gpus=2, at=7_000.0),
        make_job("exactly", gpus=1, at=9_000.0, priority=1),
        make_job("not-yet", gpus=1, at=9_000.5, priority=2),
        make_job("wide", gpus=3, at=1.0),
        make_job("also", queue="blue", gpus=2, at=2.0),
    ]

    assert overdue(World(*jobs)) == (["red/first", "red/second", "red/exactly"], ["red/wide", "blue/also"])


@pytest.mark.parametrize(
    ("job", "policy", "since"),
    [
        pytest.param(make_job("a", at=500.0), POLICY, 1_500.0, id="after its patience"),
        pytest.param(replace(make_job("a", at=500.0), requeued_at=700.0), POLICY, 1_700.0, id="anew after a run"),
        pytest.param(make_job("a", at=500.0), replace(POLICY, collect_after_s=0), inf, id="never where none is set"),
        pytest.param(make_job("a", at=500.0), replace(POLICY, collect_after_s=1), 501.0, id="as short as it may be"),
    ],
)
def test_a_job_is_overdue_since(job: Job, policy: Policy, since: float) -> None:
    assert World(policy=policy).collecting.overdue_since(job) == since


def test_nobody_is_overdue_where_no_patience_is_set() -> None:
    assert overdue(World(make_job("old", at=0.0), policy=replace(POLICY, collect_after_s=0))) == ([], [])


GANG = make_job("gang", gpus=4, at=1.0, max_runtime_s=100)
ALL = (make_queue("red", guaranteed=4), make_queue("blue", guaranteed=0))


def test_a_place_is_kept_until_the_cycle_is_over() -> None:
    world = World(busy("held", 0, max_runtime_s=1_600), GANG, queues=ALL)

    assert (bool(world.collecting), GANG in world.collecting) == (False, False)
    assert world.keep("gang")
    assert world.free == [-1_000, 0, 0, 0]
    assert (bool(world.collecting), GANG in world.collecting) == (True, True)
    assert [(kept.job, kept.starts_at, kept.is_collected) for kept in world.reservations.all()] == [
        ("red/gang", 10_600.0, True)
    ]

    world.collecting.close()

    assert world.free == [0, 1_000, 1_000, 1_000]
    assert (bool(world.collecting), GANG in world.collecting) == (False, False)


def test_no_place_is_kept_where_no_ending_makes_one() -> None:
    """The whole node would not be enough for what the other queue holds and never gives back."""
    limited = (make_queue("red", guaranteed=0, limit=3), make_queue("blue", guaranteed=0))
    world = World(busy("held", 0), replace(GANG, gpu=replace(GANG.gpu, count=2)), queues=limited)
    world.cluster.occupancy.allocate(world.cluster.running.allocations["red/held"])
    world.cluster.occupancy.allocate(world.cluster.running.allocations["red/held"])

    assert not world.keep("gang")
    assert not world.collecting
    assert world.reservations.all() == []


def test_who_is_leaving_has_left_in_half_a_minute() -> None:
    world = World(busy("leaves", 0, evicting=True), GANG, queues=ALL)

    assert world.keep("gang")
    assert [kept.starts_at for kept in world.reservations.all()] == [NOW + 30]


@pytest.mark.parametrize(
    ("queues", "for_quota", "free"),
    [
        pytest.param((make_queue("red", limit=2),), True, [0, 1_000, 1_000, 1_000], id="quota alone"),
        pytest.param((make_queue("red", limit=2),), False, [-1_000, 0, 1_000, 1_000], id="GPUs, where these lack"),
    ],
)
def test_for_who_lacks_quota_beyond_a_guarantee_no_gpu_stands_idle(
    queues: tuple[TenantQueue, ...], for_quota: bool, free: list[int]
) -> None:
    rival = make_queue("blue", guaranteed=1)
    world = World(
        busy("held", 0, max_runtime_s=1_600), replace(GANG, gpu=replace(GANG.gpu, count=2)), queues=(*queues, rival)
    )

    assert world.keep("gang", for_quota=for_quota)
    assert world.free == free


def test_for_an_entitled_job_gpus_are_kept_with_its_quota() -> None:
    world = World(
        busy("held", 0, max_runtime_s=1_600),
        replace(GANG, gpu=replace(GANG.gpu, count=2)),
        queues=(make_queue("red", guaranteed=2, limit=2), make_queue("blue", guaranteed=1)),
    )

    assert world.keep("gang", for_quota=True)
    assert sorted(world.free) == [-1_000, 0, 1_000, 1_000]


def test_who_borrows_from_the_guarantee_may_be_asked_to_leave() -> None:
    world = World(busy("lent", 0, queue="blue"), busy("own", 1), GANG, queues=ALL)
    found = world.collecting.candidates(world.waiting["gang"][1])

    assert ([one.job.key for one in found.jobs], list(found.surplus)) == (["blue/lent"], [])
