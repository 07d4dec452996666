"""The current occupancy and the one after the evictions that are under way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.cycle.accounts import Accounts
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.model.objects import Job
from cotenant.core.placement import BestFit
from cotenant.core.snapshot.accounting import Accounting
from tests.support.clusters import make_job, make_node, make_placement, make_queue

STAYS = make_job("stays", placement=make_placement(("n1", [[0]])))
LEAVES = make_job("leaves", placement=make_placement(("n1", [[1]])), evicting=True)
SHRINKS = make_job(
    "shrinks",
    workers=(1, 2),
    placement=make_placement(("n1", [[1]])),
    resizing_from=make_placement(("n1", [[1], [2]])),
)


def accounts(*jobs: Job) -> Accounts:
    counted = Accounting.of([make_node("n1", gpus=4)], [make_queue("red", guaranteed=4)], jobs)
    running = RunningJobs(counted.running, counted.allocations, counted.tree)
    return Accounts(Occupancy(counted.ledger, counted.usage, BestFit()), running)


def place(held: Accounts, column: int) -> Allocation:
    return allocation_of(make_job("new"), make_placement(("n1", [[column]])), held.current.inventory, held.current.tree)


def free(occupancy: Occupancy | None) -> list[int] | None:
    return None if occupancy is None else (occupancy.ledger.free_compute[0] // 1_000).tolist()


@pytest.mark.parametrize(
    ("jobs", "now", "after"),
    [
        pytest.param([STAYS], [0, 1, 1, 1], None, id="there is none while no job leaves"),
        pytest.param([STAYS, LEAVES], [0, 0, 1, 1], [0, 1, 1, 1], id="without a job that leaves"),
        pytest.param([STAYS, SHRINKS], [0, 0, 0, 1], [0, 0, 1, 1], id="with the rest of a job that shrinks"),
        pytest.param(
            [STAYS, replace(SHRINKS, evicting=True)],
            [0, 0, 0, 1],
            [0, 1, 1, 1],
            id="without one that shrank before",
        ),
    ],
)
def test_free_gpus_are_counted_now_and_after_evictions(
    jobs: list[Job], now: list[int], after: list[int] | None
) -> None:
    held = accounts(*jobs)

    assert (free(held.current), free(held.after_evictions)) == (now, after)
    assert free(held.open_after_evictions()) == (now if after is None else after)
    assert held.after_evictions is held.open_after_evictions()


@pytest.mark.parametrize("lost", [LEAVES, SHRINKS, replace(LEAVES, evicting=False)])
def test_a_gang_that_lost_a_node_gives_back_all_that_it_holds(lost: Job) -> None:
    held = accounts(STAYS, lost)
    held.expect_to_leave([] if lost.evicting else [lost])

    assert free(held.after_evictions) == [0, 1, 1, 1]


def test_an_allocation_is_taken_from_both_accounts_and_given_back_to_both() -> None:
    held = accounts(STAYS, LEAVES)
    held.allocate(place(held, 3))
    early = (free(held.current), free(held.after_evictions))
    held.allocate(place(held, 2))
    both = (free(held.current), free(held.after_evictions))
    held.release(place(held, 3))

    assert early == ([0, 0, 1, 0], [0, 1, 1, 0])
    assert both == ([0, 0, 0, 0], [0, 1, 0, 0])
    assert (free(held.current), free(held.after_evictions)) == ([0, 0, 0, 1], [0, 1, 0, 1])


@pytest.mark.parametrize("opened", [True, False])
def test_a_nominated_place_is_taken_in_both_accounts(opened: bool) -> None:
    held = accounts(STAYS, LEAVES)
    if opened:
        held.open_after_evictions()
    held.nominate(place(held, 1))

    assert (free(held.current), free(held.after_evictions)) == ([0, -1, 1, 1], [0, 0, 1, 1])


def test_a_job_that_leaves_in_two_parts_gives_back_both() -> None:
    two = make_job("two", gpus=2, placement=make_placement(("n1", [[0, 1]])))
    held = accounts(two)
    held.depart("red/two", place(held, 1).without_pods({0}))
    held.depart("red/two", place(held, 0))

    assert free(held.after_evictions) == [1, 1, 1, 1]
    assert free(held.current) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("job", "column"),
    [
        pytest.param(STAYS, 0, id="that it has given back"),
        pytest.param(LEAVES, 1, id="of a job whose eviction is under way"),
        pytest.param(STAYS, 2, id="that it does not hold"),
    ],
)
def test_a_departure_gives_back_no_gpu_that(job: Job, column: int) -> None:
    held = accounts(job)
    if column == 0:
        held.depart(job.key, place(held, 0))

    with pytest.raises(ValueError, match=f"job {job.key} leaves twice"):
        held.depart(job.key, place(held, column))
