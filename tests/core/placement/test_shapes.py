"""What one worker needs of one node: amounts per kind of GPU, cost in quotas, and which kinds may serve."""

from __future__ import annotations

import pytest

from cotenant.core.gpus.inventory import GpuKind, Inventory
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import GpuRequest
from cotenant.core.placement.shapes import Shape, heaviest, one_gpu_of, rougher, worker_shape
from tests.support.clusters import make_job, make_node

H100, A100 = GpuKind("H100", 81_920), GpuKind("A100", 40_960)
ODD = GpuKind("Odd", 1_000)


@pytest.mark.parametrize(
    ("shape", "kind", "per_gpu", "cost"),
    [
        pytest.param(Shape(), H100, (81_920, 1_000), 1_000, id="a whole GPU"),
        pytest.param(Shape(count=4), A100, (40_960, 1_000), 4_000, id="four whole GPUs"),
        pytest.param(Shape(whole=False, memory_milli=250), A100, (10_240, 250), 250, id="a quarter of a GPU"),
        pytest.param(
            Shape(whole=False, memory_milli=333), GpuKind("Odd", 1_001), (333, 333), 333, id="memory rounds down"
        ),
        pytest.param(
            Shape(whole=False, memory_milli=1), GpuKind("Odd", 10), (1, 1), 100, id="at least one MiB, which is paid"
        ),
        pytest.param(Shape(whole=False, memory_mib=20_480), A100, (20_480, 500), 500, id="compute follows memory"),
        pytest.param(
            Shape(whole=False, memory_mib=333), ODD, (333, 333), 333, id="compute that follows is of the GPU's own size"
        ),
        pytest.param(
            Shape(whole=False, memory_mib=2), GpuKind("Odd", 3), (2, 666), 667, id="compute rounds down and cost up"
        ),
        pytest.param(
            Shape(whole=False, memory_mib=1), H100, (1, 1), 1, id="compute that follows is at least one milli"
        ),
        pytest.param(
            Shape(whole=False, compute_milli=100), A100, (4_096, 100), 100, id="memory follows compute that is alone"
        ),
        pytest.param(
            Shape(whole=False, memory_mib=20_480, compute_milli=100), A100, (20_480, 100), 500, id="memory is larger"
        ),
        pytest.param(
            Shape(whole=False, memory_mib=4_096, compute_milli=700), A100, (4_096, 700), 700, id="compute is larger"
        ),
        pytest.param(
            Shape(whole=False, memory_milli=600, compute_milli=100), ODD, (600, 100), 600, id="a part of more memory"
        ),
        pytest.param(
            Shape(whole=False, memory_milli=100, compute_milli=600), ODD, (100, 600), 600, id="a part of more compute"
        ),
        pytest.param(
            Shape(whole=False, memory_milli=333, count=3), GpuKind("Odd", 1_001), (333, 333), 999, id="n n-ths cost one"
        ),
        pytest.param(Shape(count=0), H100, (81_920, 1_000), 0, id="no GPU costs nothing"),
    ],
)
def test_what_a_shape_takes_of_a_gpu_and_costs_in_quotas(
    shape: Shape, kind: GpuKind, per_gpu: tuple[int, int], cost: int
) -> None:
    assert (shape.per_gpu(kind), shape.cost(kind)) == (per_gpu, Amounts(cost, per_gpu[0] * shape.count))


@pytest.mark.parametrize(
    ("shape", "kind", "allows"),
    [
        pytest.param(Shape(), A100, True, id="any class"),
        pytest.param(Shape(classes=("A100", "H100")), A100, True, id="one of its classes"),
        pytest.param(Shape(classes=("H100",)), A100, False, id="none of its classes"),
        pytest.param(Shape(classes=("A100", "H100"), only_class="H100"), A100, False, id="narrowed to another class"),
        pytest.param(Shape(only_class="A100"), A100, True, id="narrowed to this class"),
        pytest.param(Shape(whole=False, memory_mib=40_960), A100, True, id="a share of all memory"),
        pytest.param(Shape(whole=False, memory_mib=40_961), A100, False, id="a share of one MiB more than there is"),
        pytest.param(Shape(whole=False, memory_mib=1, compute_milli=1_000), A100, True, id="all compute"),
        pytest.param(Shape(whole=False, memory_mib=1, compute_milli=1_001), A100, False, id="more than all compute"),
    ],
)
def test_whether_a_kind_of_gpu_may_serve(shape: Shape, kind: GpuKind, allows: bool) -> None:
    assert shape.allows(kind) is allows


def test_a_merged_shape_takes_separate_gpus_for_each_worker() -> None:
    shape = Shape(count=2, whole=False, memory_mib=7, cpu_milli=5, host_mib=3, classes=("A100",), only_class="A100")

    assert shape.times(3) == Shape(
        count=6, whole=False, memory_mib=7, cpu_milli=15, host_mib=9, classes=("A100",), only_class="A100"
    )
    assert shape.times(1) == shape


def test_amounts_per_kind_are_arrays_in_the_order_of_the_kinds() -> None:
    inventory = Inventory.of([make_node("n1"), make_node("n2", gpu_class="A100", memory_mib=40_960)])
    memory, compute, serves = Shape(whole=False, memory_mib=20_480, classes=("H100",)).per_kind(inventory)

    assert (memory.tolist(), compute.tolist(), serves.tolist()) == ([20_480, 20_480], [500, 250], [False, True])


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(GpuRequest(count=3), Shape(count=3, cpu_milli=5, host_mib=7), id="whole GPUs"),
        pytest.param(GpuRequest(count=0), Shape(count=0, cpu_milli=5, host_mib=7), id="no GPU"),
        pytest.param(
            GpuRequest(memory_mib=9, compute_milli=8),
            Shape(whole=False, memory_mib=9, compute_milli=8, cpu_milli=5, host_mib=7),
            id="a share in MiB",
        ),
        pytest.param(
            GpuRequest(memory_milli=9),
            Shape(whole=False, memory_milli=9, cpu_milli=5, host_mib=7),
            id="a share in milli",
        ),
        pytest.param(
            GpuRequest(classes=("H100", "A100")),
            Shape(classes=("A100", "H100"), cpu_milli=5, host_mib=7),
            id="the order of preference is no part of the shape",
        ),
    ],
)
def test_the_shape_of_one_worker_is(request_: GpuRequest, want: Shape) -> None:
    assert worker_shape(make_job("a", gpu=request_, cpu_milli=5, memory_mib=7)) == want


def test_one_gpu_of_a_shape_asks_for_nothing_else_of_the_node() -> None:
    shape = Shape(count=4, cpu_milli=8_000, host_mib=64_000)
    assert one_gpu_of(shape) == Shape()


@pytest.mark.parametrize(
    ("shape", "want"),
    [
        pytest.param(Shape(count=4, cpu_milli=8_000, host_mib=64, scratch_mib=9), Shape(count=4), id="GPUs alone"),
        pytest.param(
            Shape(whole=False, memory_milli=333, compute_milli=250, classes=("T4",), only_class="T4"),
            Shape(whole=False, memory_milli=300, compute_milli=250),
            id="sizes rounded down, of any class",
        ),
        pytest.param(Shape(whole=False, memory_mib=5_000), Shape(whole=False, memory_mib=4_096), id="MiB likewise"),
        pytest.param(
            Shape(whole=False, memory_milli=7, compute_milli=500),
            Shape(whole=False, memory_milli=7, compute_milli=500),
            id="no size becomes 0, which means the other one",
        ),
    ],
)
def test_a_rougher_shape_needs(shape: Shape, want: Shape) -> None:
    assert rougher(shape) == want


def test_of_more_than_a_thousand_shapes_the_lightest_are_left_out() -> None:
    """1,024 stay. Of equal weights the last in order goes."""
    shapes = [Shape(cpu_milli=cpu) for cpu in range(1_026)]
    weights = dict.fromkeys(reversed(shapes), 1.0) | {shapes[3]: 0.5}

    assert heaviest(weights) == tuple((shape, 1.0) for shape in shapes[:-1] if shape is not shapes[3])
