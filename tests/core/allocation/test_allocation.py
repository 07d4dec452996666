"""What a placement holds, in the ledger's coordinates, one at a time and many at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.allocation.allocation import Allocation, AllocationBatch, allocation_of, tenant_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.placements import cut
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import Job, Node, Placement, Sharing, TenantQueue
from cotenant.core.placement import BestFit
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge
from cotenant.core.snapshot.accounting import Accounting
from tests.core.worlds.held_amounts import same_ledger, same_usage
from tests.core.worlds.test_properties import clusters
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue

INVENTORY = Inventory.of(
    [
        make_node("n1", gpus=2, zone="east"),
        make_node("n2", gpus=2, zone="west"),
        make_node("n3", gpus=2, gpu_class="A100", memory_mib=40_960, zone="east"),
    ]
)
TREE = QueueTree.of([make_queue("blue", guaranteed=1), make_queue("red", guaranteed=1)], INVENTORY)
JOB = make_job("a", user="ann", cpu_milli=2_000, memory_mib=512, sharing=Sharing.ANY)
NODE = NodeAllocation(
    row=0,
    columns=(0,),
    memory_mib=(81_920,),
    compute_milli=(1_000,),
    cpu_milli=2_000,
    host_mib=512,
    tenant=1,
    sharing=Sharing.ANY,
)


@pytest.mark.parametrize(
    ("placement", "want"),
    [
        pytest.param(
            make_placement(("n1", [[0]])),
            Allocation((NODE,), Charge(1, "ann", ((("H100", "east"), Amounts(1_000, 81_920)),))),
            id="one whole GPU",
        ),
        pytest.param(
            make_placement(("n1", [[0, 1], [1]]), milli=300, memory_mib=10_000),
            Allocation(
                (
                    replace(
                        NODE,
                        columns=(0, 1, 1),
                        memory_mib=(3_000,) * 3,
                        compute_milli=(300,) * 3,
                        cpu_milli=4_000,
                        host_mib=1_024,
                    ),
                ),
                Charge(1, "ann", ((("H100", "east"), Amounts(900, 9_000)),)),
            ),
            id="CPU and memory count per worker and GPUs per grant",
        ),
        pytest.param(
            make_placement(("n1", [[0]]), milli=100, memory_mib=409_600),
            Allocation(
                (replace(NODE, memory_mib=(40_960,), compute_milli=(100,)),),
                Charge(1, "ann", ((("H100", "east"), Amounts(500, 40_960)),)),
            ),
            id="the larger dimension is charged",
        ),
        pytest.param(
            make_placement(("n2", [[0]]), ("n1", [[1]])),
            Allocation(
                (replace(NODE, row=1), replace(NODE, columns=(1,))),
                Charge(
                    1, "ann", ((("H100", "east"), Amounts(1_000, 81_920)), (("H100", "west"), Amounts(1_000, 81_920)))
                ),
            ),
            id="nodes in the order of the placement and charges in that of the buckets",
        ),
        pytest.param(
            make_placement(("n9", [[0]]), ("n1", [[0]])),
            Allocation((NODE,), Charge(1, "ann", ((("H100", "east"), Amounts(1_000, 81_920)),)), "node n9"),
            id="a node that is gone is left out and named",
        ),
        pytest.param(
            make_placement(("n1", [[0], [7]]), ("n9", [[0]])),
            Allocation(
                (replace(NODE, cpu_milli=4_000, host_mib=1_024),),
                Charge(1, "ann", ((("H100", "east"), Amounts(1_000, 81_920)),)),
                "GPU GPU-n1-7 of node n1",
            ),
            id="the first thing that is missing is named and a worker without its GPU keeps its CPU",
        ),
    ],
)
def test_what_a_placement_holds(placement: Placement, want: Allocation) -> None:
    assert allocation_of(JOB, placement, INVENTORY, TREE) == want


def test_a_gpu_that_lies_on_another_node_than_the_placement_says_is_missing() -> None:
    astray = make_placement(("n1", [[0]])).nodes[0]
    astray = replace(astray, node="n2")

    found = allocation_of(JOB, Placement(nodes=(astray,)), INVENTORY, TREE)

    assert found == Allocation(
        (replace(NODE, row=1, columns=(), memory_mib=(), compute_milli=()),),
        Charge(1, "ann", ()),
        "GPU GPU-n1-0 of node n2",
    )


def test_only_the_node_of_rank_0_holds_the_chiefs_amounts() -> None:
    job, placement = replace(JOB, chief_cpu_milli=9_000), make_placement(("n1", [[0], [1]]), ("n2", [[0]]))

    def amounts(part: Placement) -> list[tuple[int, int]]:
        return [(node.cpu_milli, node.host_mib) for node in allocation_of(job, part, INVENTORY, TREE).nodes]

    assert amounts(placement) == [(11_000, 1_024), (2_000, 512)]
    assert [amounts(part) for part in cut(placement, [range(1), range(1, 3)])] == [
        [(9_000, 512)],
        [(2_000, 512), (2_000, 512)],
    ]


def test_a_job_of_a_deleted_queue_is_charged_to_no_queue_and_shares_with_none() -> None:
    orphan = allocation_of(replace(JOB, queue="grey"), make_placement(("n1", [[0]])), INVENTORY, TREE)

    assert orphan.charge.queue == -1
    assert orphan.nodes[0].tenant == tenant_of("gone too", TREE) == 2
    assert [tenant_of(name, TREE) for name in ("blue", "red")] == [0, 1]


def allocations() -> list[Allocation]:
    """Allocations of two users and two queues, whole GPUs and shares, on all nodes."""
    blue = make_job("b", queue="blue", user="bob", milli=200, sharing=Sharing.NEVER)
    share = make_placement(("n2", [[0], [0]]), milli=200)
    return [
        allocation_of(JOB, make_placement(("n1", [[0]])), INVENTORY, TREE),
        allocation_of(blue, share, INVENTORY, TREE),
        allocation_of(JOB, make_placement(("n1", [[1]]), ("n2", [[1]])), INVENTORY, TREE),
        allocation_of(replace(JOB, cpu_milli=5), make_placement(("n3", [[1]]), memory_mib=40_960), INVENTORY, TREE),
    ]


@pytest.mark.parametrize(("start", "stop"), [(start, stop) for start in range(5) for stop in range(start, 5)])
def test_applying_a_stretch_of_a_batch_equals_applying_its_allocations_one_by_one(start: int, stop: int) -> None:
    held = allocations()
    batch = AllocationBatch(held[:2])
    batch.extend(held[2:])
    at_once, one_by_one = Ledger(INVENTORY), Ledger(INVENTORY)
    batch.apply(at_once, start, stop, 1)
    for allocation in held[start:stop]:
        for node in allocation.nodes:
            one_by_one.allocate(node)

    assert len(batch) == 4
    assert same_ledger(at_once, one_by_one)
    assert at_once.changed_rows.tolist() == sorted(set(one_by_one.changed_rows))
    batch.apply(at_once, start, stop, -1)
    assert same_ledger(at_once, Ledger(INVENTORY))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1], [2], [], [1, 1, 0]])
def test_a_reordered_batch_equals_a_batch_of_the_reordered_allocations(order: list[int]) -> None:
    held = allocations()
    taken, made = AllocationBatch(held).take(np.array(order, dtype=np.int64)), AllocationBatch(held[at] for at in order)

    assert len(taken) == len(order)
    for stop in range(len(order) + 1):
        ledgers = Ledger(INVENTORY), Ledger(INVENTORY)
        for ledger, batch in zip(ledgers, (taken, made), strict=True):
            batch.apply(ledger, 0, stop, 1)
        assert same_ledger(ledgers[0], ledgers[1])
        assert sorted(map(repr, taken.charges(0, stop))) == sorted(map(repr, made.charges(0, stop)))


def test_a_batch_finds_the_allocations_on_some_nodes() -> None:
    held = allocations()
    batch = AllocationBatch(held)
    rows = sorted({node.row for allocation in held for node in allocation.nodes})

    assert len(rows) > 1
    for wanted in ([], rows[:1], rows[1:], rows, [max(rows) + 1]):
        on = [at for at, one in enumerate(held) if {node.row for node in one.nodes} & set(wanted)]
        assert batch.on_rows(wanted) == on


def test_a_batch_with_far_more_users_than_allocations_is_wide() -> None:
    held = [replace(one, charge=replace(one.charge, user=f"u{n}")) for n, one in enumerate(allocations() * 50)]
    batch = AllocationBatch(held)

    assert not batch.is_wide
    assert batch.take(np.arange(3)).is_wide


def test_charges_of_a_stretch_are_added_up_per_queue_user_and_bucket() -> None:
    batch = AllocationBatch([*allocations(), *allocations()])

    assert batch.charges(0, 3) == [
        Charge(1, "ann", ((("H100", "east"), Amounts(2_000, 163_840)),)),
        Charge(0, "bob", ((("H100", "west"), Amounts(400, 32_768)),)),
        Charge(1, "ann", ((("H100", "west"), Amounts(1_000, 81_920)),)),
    ]
    assert batch.charges(3, 5) == [
        Charge(1, "ann", ((("H100", "east"), Amounts(1_000, 81_920)),)),
        Charge(1, "ann", ((("A100", "east"), Amounts(1_000, 40_960)),)),
    ]
    assert batch.charges(2, 2) == []


@pytest.mark.parametrize(
    ("taken", "want"),
    [
        pytest.param({}, [False] * 4, id="nothing where all is free"),
        pytest.param({"memory": (0, 0)}, [True, False, False, False], id="the one whose GPU lacks memory"),
        pytest.param({"compute": (0, 0)}, [True, False, False, False], id="the one whose GPU lacks compute"),
        pytest.param({"memory": (1, 1)}, [False, False, True, False], id="one that lacks it on its second node"),
        pytest.param({"compute": (2, 1)}, [False, False, False, True], id="the last one"),
    ],
)
def test_an_allocation_is_blocked_if_one_gpu_lacks_one_unit(
    taken: dict[str, tuple[int, int]], want: list[bool]
) -> None:
    ledger = Ledger(INVENTORY)
    for dimension, (row, column) in taken.items():
        getattr(ledger, f"free_{dimension}")[row, column] -= 1

    assert AllocationBatch(allocations()).blocked(ledger).tolist() == want


@given(clusters(), st.integers(0, 10))
def test_moving_many_allocations_at_once_equals_moving_them_one_by_one(
    world: tuple[list[Node], list[TenantQueue], list[Job]], half: int
) -> None:
    toy = ToyCluster(*world)
    toy.cycle()
    snapshot = toy.snapshot()
    standing = Accounting.of(snapshot.nodes, snapshot.queues, snapshot.jobs)
    holdings = list(standing.allocations.values())
    at_once = Occupancy(standing.ledger.copy(), standing.usage.copy(), BestFit())
    one_by_one = Occupancy(standing.ledger.copy(), standing.usage.copy(), BestFit())

    bulk = AllocationBatch(holdings[:half])
    at_once.release_batch(bulk, 0, len(bulk))
    bulk.extend(holdings[half:])
    at_once.release_batch(bulk, min(half, len(holdings)), len(bulk))
    for holding in holdings:
        one_by_one.release(holding)
    for holding in holdings[::2]:
        at_once.allocate(holding)
    fits = [at_once.fits(holding, whole=False) for holding in holdings]

    assert not any(fit and blocked for fit, blocked in zip(fits, bulk.blocked(at_once.ledger).tolist(), strict=True))
    for holding in holdings[::2]:
        at_once.release(holding)
    assert same_ledger(at_once.ledger, one_by_one.ledger)
    assert same_usage(at_once.usage, one_by_one.usage)


def charged(*amounts: tuple[str, int, int], user: str = "ann") -> Allocation:
    """An allocation without GPUs that is charged milli-GPU and MiB of these classes."""
    return Allocation((), Charge(1, user, tuple(((name, "east"), Amounts(milli, mib)) for name, milli, mib in amounts)))


def test_charges_of_a_grown_batch_are_those_of_each_stretch_without_empty_ones() -> None:
    batch = AllocationBatch([charged(("H100", 1_000, 5)), charged(("H100", 0, 7), ("L4", 0, 0))])
    batch.extend([charged(("A100", 300, 0)), charged(("A100", 200, 0), ("H100", 1, 1))])

    assert [batch.charges(start, stop) for start, stop in ((0, 1), (1, 2), (2, 3), (2, 4))] == [
        [Charge(1, "ann", ((("H100", "east"), Amounts(1_000, 5)),))],
        [Charge(1, "ann", ((("H100", "east"), Amounts(0, 7)),))],
        [Charge(1, "ann", ((("A100", "east"), Amounts(300)),))],
        [Charge(1, "ann", ((("H100", "east"), Amounts(1, 1)),)), Charge(1, "ann", ((("A100", "east"), Amounts(500)),))],
    ]


@pytest.mark.parametrize(
    ("allocations", "buckets", "is_wide"),
    [(0, 0, False), (1, 66, False), (1, 67, True), (3, 70, False), (3, 71, True), (64, 65, False)],
)
def test_a_batch_with_far_more_buckets_than_allocations_is_wide(allocations: int, buckets: int, is_wide: bool) -> None:
    first = [charged(*((f"class{number}", 1, 1) for number in range(buckets)))] if allocations else []

    assert AllocationBatch([*first, *[charged()] * (allocations - 1)]).is_wide is is_wide
