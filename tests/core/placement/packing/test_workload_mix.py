"""The workload that the placer believes will come next."""

from dataclasses import replace

import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.placement.packing.workload_mix import EXACT, PARTS, SIZES, WorkloadMix, sizes, smallest
from cotenant.core.placement.shapes import Shape
from cotenant.testing import make_node

INVENTORY = Inventory.of(
    [
        make_node("a", gpus=8, gpu_class="A100", memory_mib=81_920),
        make_node("b", gpus=2, gpu_class="T4", memory_mib=16_384),
    ]
)
WHOLE = Shape(cpu_milli=8000)
HALF = Shape(whole=False, memory_milli=500, cpu_milli=4000)


def weight_of(mix: WorkloadMix, shape: Shape) -> int:
    return int(mix.weight[mix.shapes.index(shape)]) if shape in mix.shapes else 0


def test_before_anything_is_seen_the_prior_stands_in() -> None:
    mix = WorkloadMix.of([], INVENTORY)
    assert [shape.memory_milli for shape in mix.shapes if not shape.whole] == [250, 333, 500]
    assert sum(shape.whole for shape in mix.shapes) == 1


def test_the_mix_converges_to_what_is_seen_and_the_prior_fades() -> None:
    errors = []
    for seen in (10, 100, 10_000):
        mix = WorkloadMix.of([(WHOLE, 0.75 * seen), (HALF, 0.25 * seen)], INVENTORY)
        errors.append(abs(weight_of(mix, WHOLE) - 3 * PARTS // 4) + abs(weight_of(mix, HALF) - PARTS // 4))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < PARTS // 100
    assert set(WorkloadMix.of([(WHOLE, 7500.0), (HALF, 2500.0)], INVENTORY).parts) == {
        replace(WHOLE, cpu_milli=8000),
        HALF,
    }


def test_the_order_of_demands_carries_no_meaning() -> None:
    demands = [(WHOLE, 3.0), (HALF, 2.0), (Shape(count=4, cpu_milli=1), 2.0)]
    one, other = WorkloadMix.of(demands, INVENTORY), WorkloadMix.of(demands[::-1], INVENTORY)
    assert one.shapes == other.shapes
    assert one.weight.tolist() == other.weight.tolist()


def test_what_no_gpu_here_may_serve_teaches_nothing() -> None:
    unknown = Shape(classes=("H100",))
    assert unknown not in WorkloadMix.of([(unknown, 1000.0), (WHOLE, 1.0)], INVENTORY).shapes


def test_the_tail_is_merged_by_classes_so_that_a_wanted_class_is_seen() -> None:
    """A hundred different jobs that insist on T4, each too rare to be kept, weigh together what they weigh."""
    tail = [(Shape(cpu_milli=1000 + cpu, classes=("T4",)), 1.0) for cpu in range(100)]
    many = [(Shape(cpu_milli=10_000 + cpu), 10.0) for cpu in range(EXACT)]
    mix = WorkloadMix.of([*tail, *many], INVENTORY)
    bound = {shape: weight_of(mix, shape) for shape in mix.shapes if shape.classes}
    assert list(bound) == [Shape(cpu_milli=1049, classes=("T4",))]
    assert bound[Shape(cpu_milli=1049, classes=("T4",))] == pytest.approx(PARTS * 100 / 386, rel=0.01)


def test_shapes_that_differ_in_host_memory_only_are_one() -> None:
    mix = WorkloadMix.of(
        [(Shape(cpu_milli=1, host_mib=100), 3000.0), (Shape(cpu_milli=1, host_mib=500), 1000.0)], INVENTORY
    )
    assert [shape for shape in mix.shapes if shape.cpu_milli == 1] == [Shape(cpu_milli=1, host_mib=200)]


def test_of_equal_sizes_the_one_with_the_least_cpu_says_what_a_gpu_can_still_take() -> None:
    mix = WorkloadMix.of([(HALF, 900.0), (replace(HALF, cpu_milli=500), 100.0)], INVENTORY)
    assert [part for part in mix.parts if part.memory_milli == 500] == [replace(HALF, cpu_milli=500)]


def test_absolute_memory_is_a_different_size_on_each_kind() -> None:
    shape = Shape(whole=False, memory_mib=8192, compute_milli=300)
    memory, compute, allowed = sizes((shape,), INVENTORY)
    assert (memory.tolist(), compute.tolist(), allowed.tolist()) == ([[100], [500]], [[300], [300]], [[True], [True]])
    assert smallest(memory, compute, allowed).tolist() == [300]


def test_so_many_share_sizes_are_priced_the_heaviest_of_them() -> None:
    """Sixty sizes, the larger the heavier, so that the smallest are left out."""
    demands = [(Shape(whole=False, memory_milli=400 + size), 100.0 + size) for size in range(60)]

    mix = WorkloadMix.of(demands, INVENTORY)

    assert [part.memory_milli for part in mix.parts] == list(range(420, 460))
    assert SIZES == 40


def test_the_prior_has_its_part_of_the_cpu_and_memory_per_gpu() -> None:
    """Ten GPUs on nodes of different width: half of the tenth part beside a whole GPU, and shares of it."""
    mix = WorkloadMix.of([], INVENTORY)
    cpu, host = (int(amount.sum()) // 10 for amount in (INVENTORY.cpu_milli, INVENTORY.host_mib))

    assert {shape.memory_milli or 1_000: (shape.cpu_milli, shape.host_mib) for shape in mix.shapes} == {
        milli: (cpu * milli // 2_000, host * milli // 2_000) for milli in (250, 333, 500, 1_000)
    }


def test_the_prior_weighs_as_much_as_six_jobs() -> None:
    mix = WorkloadMix.of([(Shape(count=2), 6.0)], INVENTORY)

    assert weight_of(mix, Shape(count=2)) == PARTS // 2
