"""Free amounts of every GPU and node: never more than there is, and giving back undoes taking exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.objects import Sharing
from tests.core.worlds.held_amounts import same_ledger
from tests.support.clusters import make_node

SHARE = NodeAllocation(
    row=0,
    columns=(1,),
    memory_mib=(20_000,),
    compute_milli=(300,),
    cpu_milli=4_000,
    host_mib=1_000,
    tenant=3,
)
WHOLE_GPU = replace(SHARE, memory_mib=(81_920,), compute_milli=(1_000,))


def ledger() -> Ledger:
    return Ledger.of([make_node("n1", gpus=2), make_node("n2", gpus=1)])


def test_a_new_ledger_has_all_that_there_is_and_nothing_where_there_is_no_gpu() -> None:
    free = ledger()

    assert free.free_memory.tolist() == [[81_920, 81_920], [81_920, 0]]
    assert free.free_compute.tolist() == [[1_000, 1_000], [1_000, 0]]
    assert free.free_cpu.tolist() == [64_000, 64_000]
    assert free.free_host.tolist() == [524_288, 524_288]
    assert free.holders.tolist() == [[0, 0], [0, 0]]
    assert free.sound()


def moved(allocation: NodeAllocation) -> dict[str, int]:
    """All figures of GPU 1 of the first node after the allocation, and those of the node."""
    free = ledger()
    free.allocate(allocation)
    names = ("free_memory", "free_compute", "holders", "tenant_sum", "tenant_square", "exclusive", "queue_only")
    return {name: int(getattr(free, name)[0, 1]) for name in names} | {
        "cpu": int(free.free_cpu[0]),
        "host": int(free.free_host[0]),
    }


@pytest.mark.parametrize(
    ("allocation", "want"),
    [
        pytest.param(
            SHARE,
            {"holders": 1, "tenant_sum": 3, "tenant_square": 9, "exclusive": 0, "queue_only": 1},
            id="a share for its queue is counted with its tenant and keeps other queues off",
        ),
        pytest.param(
            replace(SHARE, sharing=Sharing.ANY),
            {"holders": 1, "tenant_sum": 3, "tenant_square": 9, "exclusive": 0, "queue_only": 0},
            id="a share for any queue keeps nobody off",
        ),
        pytest.param(
            replace(SHARE, sharing=Sharing.NEVER),
            {"holders": 1, "tenant_sum": 3, "tenant_square": 9, "exclusive": 1, "queue_only": 1},
            id="a share that is never joined keeps all off",
        ),
    ],
)
def test_a_share_takes_its_amounts_and_is_noted_with_its_tenant(
    allocation: NodeAllocation, want: dict[str, int]
) -> None:
    assert moved(allocation) == {"free_memory": 61_920, "free_compute": 700, "cpu": 60_000, "host": 523_288} | want


@pytest.mark.parametrize("sharing", list(Sharing))
def test_a_whole_gpu_is_noted_without_its_tenant_so_that_equal_nodes_stay_in_equal_states(sharing: Sharing) -> None:
    assert moved(replace(WHOLE_GPU, sharing=sharing)) == {
        "free_memory": 0,
        "free_compute": 0,
        "holders": 1,
        "tenant_sum": 0,
        "tenant_square": 0,
        "exclusive": 0,
        "queue_only": 0,
        "cpu": 60_000,
        "host": 523_288,
    }


@pytest.mark.parametrize(
    "allocation",
    [
        pytest.param(SHARE, id="a share"),
        pytest.param(replace(SHARE, sharing=Sharing.NEVER), id="a share that is never joined"),
        pytest.param(replace(SHARE, sharing=Sharing.ANY), id="a share for any queue"),
        pytest.param(WHOLE_GPU, id="a whole GPU"),
        pytest.param(
            replace(SHARE, columns=(1, 1), memory_mib=(9, 8), compute_milli=(7, 6)), id="two shares of one GPU"
        ),
        pytest.param(replace(SHARE, columns=(), memory_mib=(), compute_milli=()), id="CPU and memory alone"),
    ],
)
def test_a_release_undoes_an_allocation_exactly(allocation: NodeAllocation) -> None:
    taken, fresh = ledger(), ledger()
    taken.allocate(replace(SHARE, tenant=5))
    fresh.allocate(replace(SHARE, tenant=5))

    taken.allocate(allocation)
    assert not same_ledger(taken, fresh)
    taken.release(allocation)

    assert same_ledger(taken, fresh)
    assert taken.changed_rows.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "allocation",
    [
        pytest.param(replace(SHARE, memory_mib=(81_921,)), id="GPU memory"),
        pytest.param(replace(SHARE, compute_milli=(1_001,)), id="compute"),
        pytest.param(replace(SHARE, cpu_milli=64_001), id="CPU"),
        pytest.param(replace(SHARE, host_mib=524_289), id="host memory"),
        pytest.param(
            replace(SHARE, columns=(1, 1), memory_mib=(40_960, 40_961), compute_milli=(1, 1)), id="two shares together"
        ),
    ],
)
def test_a_ledger_is_sound_until_one_unit_more_is_taken_than_there_is(allocation: NodeAllocation) -> None:
    over, exact = ledger(), ledger()
    over.allocate(allocation)
    exact.allocate(
        NodeAllocation(
            row=0,
            columns=(0, 1),
            memory_mib=(81_920, 81_920),
            compute_milli=(1_000, 1_000),
            cpu_milli=64_000,
            host_mib=524_288,
            tenant=1,
        )
    )

    assert not over.sound()
    assert exact.sound()


def test_a_copy_moves_by_itself() -> None:
    original = ledger()
    twin = original.copy()
    twin.allocate(SHARE)

    assert same_ledger(original, ledger())
    assert (original.changed_rows.tolist(), twin.changed_rows.tolist()) == ([], [0])


def test_idle_is_free_compute_per_class_and_zone_of_gpus_that_take_work() -> None:
    """Two kinds of one class add up; a place that is taken twice, below zero, takes nothing off others."""
    sick = make_node("n4", zone="west")
    free = Ledger.of(
        [
            make_node("n1", gpus=2, zone="east"),
            make_node("n2", gpus=1, zone="east", memory_mib=40_960),
            make_node("n3", gpus=4, zone="east", ready=False),
            replace(sick, gpus=(replace(sick.gpus[0], healthy=False), sick.gpus[1])),
            make_node("n5", gpus=1, zone="west", gpu_class="A100"),
        ]
    )
    free.allocate(SHARE)
    free.allocate(replace(WHOLE_GPU, columns=(0,)))
    free.allocate(replace(WHOLE_GPU, columns=(0,)))

    assert free.idle() == {
        ("H100", "east"): 1_700,
        ("H100", "west"): 1_000,
        ("A100", "west"): 1_000,
        ("A100", "east"): 0,
    }


def test_on_changed_nodes_the_same_holders_leave_the_difference_free() -> None:
    free = ledger()
    free.allocate(SHARE)
    inventory = free.inventory.patched([make_node("n1", gpus=2, cpu_milli=32_000, host_mib=500_000, ready=False)])

    patched = free.with_inventory(inventory)
    afresh = Ledger(inventory)
    afresh.allocate(SHARE)

    assert same_ledger(patched, afresh)
    assert (patched.free_cpu.tolist(), patched.free_host.tolist()) == ([28_000, 64_000], [499_000, 524_288])
    assert free.free_cpu.tolist() == [60_000, 64_000]


@pytest.mark.parametrize(
    ("held", "released"),
    [
        pytest.param([], SHARE, id="of which nothing is held"),
        pytest.param([WHOLE_GPU], replace(WHOLE_GPU, columns=(0,)), id="beside the one that is held"),
        pytest.param([SHARE], WHOLE_GPU, id="of which less is held"),
        pytest.param([SHARE], replace(SHARE, memory_mib=(20_001,)), id="of whose memory less is held"),
    ],
)
def test_a_release_of_a_gpu_is_refused(held: list[NodeAllocation], released: NodeAllocation) -> None:
    books = ledger()
    for one in held:
        books.allocate(one)

    with pytest.raises(ValueError, match=r"GPU GPU-n1-\d of node n1: more is released than jobs hold"):
        books.release(released)


def test_gpus_nominated_twice_are_released_twice() -> None:
    """A nominated place counts in addition to the jobs that leave it."""
    books = ledger()
    books.allocate(WHOLE_GPU)
    books.allocate(WHOLE_GPU)
    books.release(WHOLE_GPU)
    books.release(WHOLE_GPU)

    assert same_ledger(books, ledger())


def test_a_node_whose_pod_limit_grew_gets_all_its_pods_back() -> None:
    held = ledger()
    held.allocate(SHARE)
    more = replace(held.inventory, pods=held.inventory.pods + 1)
    patched = held.with_inventory(more)
    patched.release(SHARE)
    assert patched.free_pods.tolist() == more.pods.tolist()
