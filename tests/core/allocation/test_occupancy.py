"""Ledger and quotas move together, and a trial leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from cotenant.core.allocation.allocation import Allocation, AllocationBatch, allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job, Node, Quota, TenantQueue
from cotenant.core.placement import BestFit
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage
from cotenant.core.snapshot.accounting import Accounting
from tests.core.worlds.held_amounts import same_ledger, same_usage
from tests.core.worlds.test_properties import clusters
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue

RED, BLUE = make_queue("red", guaranteed=1, limit=2), make_queue("blue", guaranteed=2, lendable=1)


def occupancy(*queues: TenantQueue, node: Node | None = None) -> Occupancy:
    ledger = Ledger.of([node or make_node("n1", gpus=4)])
    return Occupancy(ledger, Usage(QueueTree.of(queues or (RED,), ledger.inventory)), BestFit())


def allocation(at: Occupancy, *columns: int, milli: int = 1_000, queue: str = "red") -> Allocation:
    job = make_job("a", queue=queue, cpu_milli=1_000, memory_mib=1_000)
    placement = make_placement(("n1", [[column] for column in columns]), milli=milli)
    return allocation_of(job, placement, at.inventory, at.tree)


def amounts(held: Occupancy) -> tuple[list[int], list[int]]:
    """(free compute of each GPU, milli-GPU under each quota line)."""
    return held.ledger.free_compute[0].tolist(), list(held.usage.quota_milli)


def test_an_allocation_is_taken_from_the_ledger_and_the_quotas() -> None:
    held = occupancy()
    held.allocate(allocation(held, 0, 2))
    assert amounts(held) == ([0, 1_000, 0, 1_000], [2_000])

    held.release(allocation(held, 0))
    assert amounts(held) == ([1_000, 1_000, 0, 1_000], [1_000])

    twin = held.copy()
    twin.allocate(allocation(held, 3))
    assert amounts(twin) == ([1_000, 1_000, 0, 0], [2_000])
    assert amounts(held) == ([1_000, 1_000, 0, 1_000], [1_000])


@pytest.mark.parametrize(("start", "stop", "free"), [(0, 2, [0, 2]), (1, 3, [2, 3]), (1, 1, []), (2, 2, [])])
def test_a_stretch_of_a_batch_is_given_back(start: int, stop: int, free: list[int]) -> None:
    held = occupancy()
    batch = AllocationBatch(allocation(held, column) for column in (0, 2, 3))
    for column in (0, 2, 3):
        held.allocate(allocation(held, column))
    mark = held.mark

    held.release_batch(batch, start, stop)

    assert amounts(held) == ([1_000 * (column in (1, *free)) for column in range(4)], [3_000 - 1_000 * len(free)])
    assert held.mark == mark + (start < stop)
    held.roll_back(mark)
    assert amounts(held) == ([0, 1_000, 0, 0], [3_000])


def test_a_nested_trial_rolls_back_only_its_own_changes() -> None:
    held = occupancy()
    held.allocate(allocation(held, 0))
    with held.trial():
        held.allocate(allocation(held, 1))
        with held.trial():
            held.release(allocation(held, 0))
            held.allocate(allocation(held, 2))
        assert amounts(held) == ([0, 0, 1_000, 1_000], [2_000])
    assert amounts(held) == ([0, 1_000, 1_000, 1_000], [1_000])


def test_a_trial_that_ends_in_an_error_is_rolled_back() -> None:
    held = occupancy()

    def fail() -> None:
        with held.trial():
            held.allocate(allocation(held, 1))
            raise ValueError("too late")

    with pytest.raises(ValueError, match="too late"):
        fail()
    assert amounts(held) == ([1_000] * 4, [0])


@pytest.mark.parametrize(
    ("queue", "columns", "taken", "fits"),
    [
        pytest.param(RED, (0, 1), (), True, id="free GPUs inside the limit"),
        pytest.param(RED, (0, 1), (1,), False, id="one of its GPUs is held"),
        pytest.param(RED, (0, 1), (2,), False, id="the limit leaves one"),
        pytest.param(replace(RED, quotas=(Quota(gpu_class="A100"),)), (0,), (), False, id="no line covers the class"),
    ],
)
def test_whether_an_allocation_fits(
    queue: TenantQueue, columns: tuple[int, ...], taken: tuple[int, ...], fits: bool
) -> None:
    held = occupancy(queue)
    held.allocate(allocation(held, *taken))

    assert held.fits(allocation(held, *columns), whole=True) is fits


@pytest.mark.parametrize(("on", "fits"), [("n3", True), ("n1", False), ("n2", False)])
def test_an_allocation_of_two_nodes_fits_if_both_have_room(on: str, fits: bool) -> None:
    ledger = Ledger.of([make_node(name, gpus=1) for name in ("n1", "n2", "n3")])
    held = Occupancy(ledger, Usage(QueueTree.of([make_queue("red", guaranteed=8)], ledger.inventory)), BestFit())

    def of(*names: str) -> Allocation:
        placement = make_placement(*((name, [[0]]) for name in names))
        return allocation_of(make_job("a"), placement, held.inventory, held.tree)

    held.allocate(of(on))

    assert held.fits(of("n1", "n2"), whole=True) is fits


@pytest.mark.parametrize(
    ("queues", "columns", "within"),
    [
        pytest.param((RED, BLUE), (0, 1, 2), True, id="what another queue lends"),
        pytest.param((RED, BLUE), (0, 1, 2, 3), False, id="one more than another queue lends"),
        pytest.param((RED, replace(BLUE, quotas=(Quota(guaranteed=2_000),))), (0, 1, 2, 3), True, id="all is lent"),
    ],
)
def test_an_allocation_respects_what_other_queues_do_not_lend(
    queues: tuple[TenantQueue, ...], columns: tuple[int, ...], within: bool
) -> None:
    held = occupancy(*queues)

    assert held.within_lending_limits(allocation(held, *columns)) is within


def test_idle_gpus_are_counted_only_if_some_queue_lends_less_than_its_guarantee() -> None:
    assert occupancy(RED).lendable_idle() is None
    held = occupancy(RED, BLUE)
    held.allocate(allocation(held, 0))
    assert held.lendable_idle() == {("H100", ""): 3_000}


@given(clusters())
def test_a_trial_that_is_rolled_back_leaves_nothing_behind(
    world: tuple[list[Node], list[TenantQueue], list[Job]],
) -> None:
    toy = ToyCluster(*world)
    toy.cycle()
    snapshot = toy.snapshot()
    standing = Accounting.of(snapshot.nodes, snapshot.queues, snapshot.jobs)
    books = Occupancy(standing.ledger.copy(), standing.usage.copy(), BestFit())
    holdings = list(standing.allocations.values())
    with books.trial():
        bulk = AllocationBatch(holdings)
        books.release_batch(bulk, 0, len(bulk))
        for holding in holdings[::2]:
            books.allocate(holding)
        with books.trial():
            for holding in holdings[::2]:
                books.release(holding)
    assert same_ledger(books.ledger, standing.ledger)
    assert same_usage(books.usage, standing.usage)
    assert books.ledger.sound()
