"""The filter: which GPUs may serve, who may share one, and how many workers a node takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.objects import Node, Sharing
from cotenant.core.placement.fitting import Tenancy, capacity, fits_exactly, shares_per_gpu, stacked_workers
from cotenant.core.placement.shapes import Shape
from tests.core.placement.kept_fits import fit
from tests.support.clusters import make_node

NEVER, QUEUE, ANY = Sharing.NEVER, Sharing.QUEUE, Sharing.ANY
HALF = Shape(whole=False, memory_milli=500)
ROW = np.array([0])
HOLDING = NodeAllocation(
    row=0, columns=(0,), memory_mib=(8_192,), compute_milli=(100,), cpu_milli=1_000, host_mib=1_024, tenant=1
)


def ledger(*held: NodeAllocation, node: Node | None = None) -> Ledger:
    free = Ledger.of([node or make_node("n1")])
    for allocation in held:
        free.allocate(allocation)
    return free


def holder(tenant: int, sharing: Sharing) -> NodeAllocation:
    return replace(HOLDING, tenant=tenant, sharing=sharing)


@pytest.mark.parametrize(
    ("holders", "newcomer", "own_nodes", "shared_nodes"),
    [
        pytest.param([], (1, NEVER), True, True, id="an empty GPU takes one that is never joined"),
        pytest.param([], (1, QUEUE), True, True, id="an empty GPU takes one for its queue"),
        pytest.param([], (1, ANY), True, True, id="an empty GPU takes one for any queue"),
        pytest.param([(1, QUEUE)], (1, QUEUE), True, True, id="two of one queue share"),
        pytest.param([(1, QUEUE)], (1, ANY), True, True, id="one for any queue joins its own"),
        pytest.param([(1, ANY)], (1, QUEUE), True, True, id="one for its queue joins its own although that takes any"),
        pytest.param([(1, QUEUE)], (1, NEVER), False, False, id="one that is never joined joins nobody"),
        pytest.param([(1, NEVER)], (1, QUEUE), False, False, id="nobody of its queue joins one that is never joined"),
        pytest.param([(1, NEVER)], (2, ANY), False, False, id="no other queue joins one that is never joined"),
        pytest.param([(1, QUEUE)], (2, QUEUE), False, False, id="two queues do not share"),
        pytest.param([(1, QUEUE)], (2, ANY), False, False, id="the holder does not share with other queues"),
        pytest.param([(1, ANY)], (2, QUEUE), False, False, id="the newcomer does not share with other queues"),
        pytest.param([(1, ANY)], (2, ANY), False, True, id="both take any queue, where the node allows it"),
        pytest.param([(1, QUEUE), (1, ANY)], (2, ANY), False, False, id="one of two holders keeps other queues off"),
        pytest.param([(1, ANY), (2, ANY)], (3, ANY), False, True, id="a third queue joins two"),
        pytest.param([(1, ANY), (2, ANY)], (2, QUEUE), False, False, id="one for its queue joins no mixed GPU"),
        pytest.param([(1, ANY), (3, ANY)], (2, QUEUE), False, False, id="the mean of two queues is neither of them"),
        pytest.param([(2, QUEUE), (2, QUEUE)], (2, QUEUE), True, True, id="a third of one queue joins two"),
        pytest.param([(0, QUEUE)], (0, QUEUE), True, True, id="the queue of number 0 is a queue like others"),
        pytest.param([(0, QUEUE)], (1, QUEUE), False, False, id="and shares with no other"),
        pytest.param([(1, QUEUE)], (0, QUEUE), False, False, id="and joins no other"),
    ],
)
def test_whether_a_gpu_may_be_shared_by(
    holders: list[tuple[int, Sharing]], newcomer: tuple[int, Sharing], own_nodes: bool, shared_nodes: bool
) -> None:
    for shared, want in ((False, own_nodes), (True, shared_nodes)):
        free = ledger(*(holder(*one) for one in holders), node=make_node("n1", shared_by_queues=shared))
        assert fit(free, HALF, ROW, Tenancy(*newcomer)).tolist() == [[want, True]]
        assert fits_exactly(free, holder(*newcomer), whole=False) is want


@pytest.mark.parametrize(
    ("shape", "want"),
    [
        pytest.param(Shape(), [False, True], id="a whole GPU must be empty"),
        pytest.param(Shape(count=2), [False, True], id="each of two whole GPUs must be empty"),
        pytest.param(
            Shape(whole=False, memory_mib=73_728, compute_milli=1), [True, True], id="exactly the memory left"
        ),
        pytest.param(Shape(whole=False, memory_mib=73_729, compute_milli=1), [False, True], id="one MiB more"),
        pytest.param(Shape(whole=False, memory_mib=1, compute_milli=900), [True, True], id="exactly the compute left"),
        pytest.param(Shape(whole=False, memory_mib=1, compute_milli=901), [False, True], id="one milli more"),
        pytest.param(Shape(whole=False, memory_milli=100, classes=("A100",)), [False, False], id="another class"),
    ],
)
def test_whether_a_partly_held_gpu_serves(shape: Shape, want: list[bool]) -> None:
    assert fit(ledger(HOLDING), shape, ROW, Tenancy(1)).tolist() == [want]


def test_only_usable_gpus_serve() -> None:
    sick = make_node("n1")
    sick = replace(sick, gpus=(replace(sick.gpus[0], healthy=False), sick.gpus[1]))
    free = Ledger.of([sick, make_node("n2", ready=False), make_node("n3", gpus=1)])

    for shape in (Shape(), HALF):
        assert fit(free, shape, np.array([2, 0, 1]), Tenancy(1)).tolist() == [
            [True, False],
            [False, True],
            [False, False],
        ]


def test_a_whole_gpu_must_have_no_holder_and_all_its_compute() -> None:
    nothing = replace(HOLDING, memory_mib=(0,), compute_milli=(0,))
    assert fit(ledger(nothing), Shape(), ROW, Tenancy(1)).tolist() == [[False, True]]
    nominated = ledger()
    nominated.free_compute[0, 1] -= 1
    assert fit(nominated, Shape(), ROW, Tenancy(1)).tolist() == [[True, False]]


def test_without_any_gpu_nothing_fits() -> None:
    free = Ledger.of([make_node("n1", gpus=0), make_node("n2", gpus=0)])

    assert fit(free, Shape(), np.array([0, 1]), Tenancy(1)).shape == (2, 0)


@pytest.mark.parametrize(
    ("shape", "distinct", "want"),
    [
        pytest.param(Shape(), True, 4, id="whole GPUs one by one"),
        pytest.param(Shape(count=3), True, 1, id="three by three with one left over"),
        pytest.param(Shape(count=5), True, 0, id="more than the node has"),
        pytest.param(Shape(whole=False, memory_milli=300), True, 4, id="shares on GPUs of their own"),
        pytest.param(Shape(whole=False, memory_milli=300), False, 12, id="shares side by side"),
        pytest.param(Shape(), False, 4, id="whole GPUs are never shared, distinct or not"),
        pytest.param(Shape(cpu_milli=20_000), True, 3, id="CPU allows three"),
        pytest.param(Shape(cpu_milli=16_000), True, 4, id="CPU allows just four"),
        pytest.param(Shape(host_mib=300_000), True, 1, id="memory allows one"),
        pytest.param(Shape(count=0, cpu_milli=20_000), True, 3, id="without GPUs CPU counts alone"),
    ],
)
def test_how_many_workers_a_node_takes(shape: Shape, distinct: bool, want: int) -> None:
    free = ledger(node=make_node("n1", gpus=4))
    fits = fit(free, shape, ROW, Tenancy(1))

    assert capacity(free, shape, ROW, fits, distinct=distinct).tolist() == [want]


def test_only_gpus_that_fit_are_counted() -> None:
    free = ledger(HOLDING, replace(HOLDING, columns=(1,), tenant=2))
    fits = fit(free, Shape(whole=False, memory_milli=200), ROW, Tenancy(1))

    assert fits.tolist() == [[True, False]]
    assert capacity(free, Shape(whole=False, memory_milli=200), ROW, fits, distinct=True).tolist() == [1]
    assert capacity(free, Shape(whole=False, memory_milli=200), ROW, fits, distinct=False).tolist() == [4]


def test_a_node_that_is_over_committed_by_nominations_takes_zero_workers() -> None:
    free = ledger()
    free.free_cpu[0] = -5_000

    assert capacity(free, Shape(cpu_milli=1_000), ROW, np.array([[True, True]])).tolist() == [0]


@pytest.mark.parametrize(("ready", "want"), [(True, 1 << 40), (False, 0)])
def test_work_without_gpus_and_cpu_needs_only_a_ready_node(ready: bool, want: int) -> None:
    free = ledger(node=make_node("n1", ready=ready))

    assert capacity(free, Shape(count=0), ROW, np.zeros((1, 2), dtype=np.bool_)).tolist() == [want]


@pytest.mark.parametrize(
    ("shape", "want"),
    [
        pytest.param(Shape(whole=False, memory_milli=300), [3, 3], id="both dimensions alike"),
        pytest.param(Shape(whole=False, memory_mib=8_192, compute_milli=1), [9, 10], id="memory is the shorter"),
        pytest.param(Shape(whole=False, memory_mib=1, compute_milli=300), [3, 3], id="compute is the shorter"),
    ],
)
def test_how_many_shares_a_gpu_takes(shape: Shape, want: list[int]) -> None:
    assert shares_per_gpu(ledger(HOLDING), shape, ROW).tolist() == [want]


def exactly(**changes: object) -> NodeAllocation:
    return replace(HOLDING, columns=(1,), **changes)  # type: ignore[arg-type]


BOTH = replace(HOLDING, columns=(0, 1), memory_mib=(81_920,) * 2, compute_milli=(1_000,) * 2)


@pytest.mark.parametrize(
    ("allocation", "want"),
    [
        pytest.param(exactly(), True, id="a share of an empty GPU"),
        pytest.param(exactly(memory_mib=(81_920,)), True, id="all memory"),
        pytest.param(exactly(memory_mib=(81_921,)), False, id="one MiB too much"),
        pytest.param(exactly(compute_milli=(1_000,)), True, id="all compute"),
        pytest.param(exactly(compute_milli=(1_001,)), False, id="one milli too much"),
        pytest.param(exactly(cpu_milli=63_000), True, id="all CPU that is left"),
        pytest.param(exactly(cpu_milli=63_001), False, id="more CPU than is left"),
        pytest.param(exactly(host_mib=523_264), True, id="all memory that is left"),
        pytest.param(exactly(host_mib=523_265), False, id="more memory than is left"),
        pytest.param(
            replace(HOLDING, columns=(1, 1), memory_mib=(40_960,) * 2, compute_milli=(500,) * 2), True, id="two halves"
        ),
        pytest.param(
            replace(HOLDING, columns=(1, 1), memory_mib=(40_960, 40_961), compute_milli=(1, 1)),
            False,
            id="two shares that together ask for a MiB too much",
        ),
        pytest.param(
            replace(HOLDING, columns=(1, 1), memory_mib=(1, 1), compute_milli=(500, 501)),
            False,
            id="two shares that together ask for a milli too much",
        ),
        pytest.param(
            replace(HOLDING, columns=(0, 1), memory_mib=(1, 1), compute_milli=(900, 1)), True, id="beside its own queue"
        ),
        pytest.param(
            replace(HOLDING, columns=(1, 0), memory_mib=(1, 1), compute_milli=(1, 901)),
            False,
            id="a milli less is left",
        ),
        pytest.param(
            replace(HOLDING, columns=(1, 0), memory_mib=(1, 1), compute_milli=(1, 1), tenant=2),
            False,
            id="the second GPU is another queue's",
        ),
    ],
)
def test_whether_an_exact_allocation_fits_beside_what_is_held(allocation: NodeAllocation, want: bool) -> None:
    assert fits_exactly(ledger(HOLDING), allocation, whole=False) is want


@pytest.mark.parametrize(
    ("free", "allocation", "want"),
    [
        pytest.param(ledger(), BOTH, True, id="two empty GPUs"),
        pytest.param(ledger(HOLDING), BOTH, False, id="one of them is held in part"),
        pytest.param(ledger(node=make_node("n1", ready=False)), BOTH, False, id="a node that takes no new work"),
        pytest.param(ledger(), replace(BOTH, cpu_milli=64_001), False, id="more CPU than there is"),
    ],
)
def test_whole_gpus_fit_exactly_if_they_are_empty(free: Ledger, allocation: NodeAllocation, want: bool) -> None:
    assert fits_exactly(free, allocation, whole=True) is want


@pytest.mark.parametrize("whole", [True, False])
def test_nothing_fits_on_an_unhealthy_gpu(whole: bool) -> None:
    node = make_node("n1")
    free = ledger(node=replace(node, gpus=(node.gpus[0], replace(node.gpus[1], healthy=False))))

    assert not fits_exactly(free, exactly(), whole=whole)
    assert fits_exactly(free, HOLDING, whole=whole)


def test_the_smallest_shares_are_counted_exactly() -> None:
    small = ledger(node=make_node("n1", gpus=1, memory_mib=500))
    assert shares_per_gpu(small, Shape(whole=False, memory_mib=1, compute_milli=1), ROW).tolist() == [[500]]
    assert shares_per_gpu(ledger(), Shape(whole=False, memory_mib=1, compute_milli=1), ROW).tolist() == [[1_000, 1_000]]


@pytest.mark.parametrize(
    ("shares", "count", "workers"),
    [
        pytest.param([5, 1, 1], 1, 7, id="of one GPU each as many as there are"),
        pytest.param([5, 1, 1], 2, 2, id="of two, none of them twice on the first"),
        pytest.param([2, 2, 2], 2, 3, id="each on another pair"),
        pytest.param([9, 0, 0], 2, 0, id="not one on a single GPU"),
        pytest.param([3, 3, 1], 3, 1, id="of all three"),
    ],
)
def test_workers_with_shares_of_several_gpus_may_share_gpus(shares: list[int], count: int, workers: int) -> None:
    assert stacked_workers(np.array([shares, [0, 0, 0]]), count).tolist() == [workers, 0]
