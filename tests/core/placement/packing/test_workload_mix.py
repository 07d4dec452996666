"""The workload that the placer expects."""

from dataclasses import replace

import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.placement.packing.workload_mix import EXACT, PARTS, SIZES, WorkloadMix, sizes, smallest
from cotenant.core.placement.shapes import Shape
from tests.support.clusters import make_node

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


def test_the_prior_is_used_before_anything_was_observed() -> None:
    mix = WorkloadMix.of([], INVENTORY)
    assert [shape.memory_milli for shape in mix.shapes if not shape.whole] == [250, 333, 500]
    assert sum(shape.whole for shape in mix.shapes) == 1


def test_the_mix_converges_to_the_observed_shapes_and_the_prior_fades() -> None:
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


def test_shapes_that_no_gpu_here_may_serve_teach_nothing() -> None:
    unknown = Shape(classes=("H100",))
    assert unknown not in WorkloadMix.of([(unknown, 1000.0), (WHOLE, 1.0)], INVENTORY).shapes


def test_rare_shapes_are_merged_by_class_so_that_a_wanted_class_stays_visible() -> None:
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


def test_of_shapes_of_equal_size_the_one_with_least_cpu_decides_what_a_gpu_can_still_take() -> None:
    mix = WorkloadMix.of([(HALF, 900.0), (replace(HALF, cpu_milli=500), 100.0)], INVENTORY)
    assert [part for part in mix.parts if part.memory_milli == 500] == [replace(HALF, cpu_milli=500)]


def test_absolute_memory_is_a_different_size_on_each_kind_of_gpu() -> None:
    shape = Shape(whole=False, memory_mib=8192, compute_milli=300)
    memory, compute, allowed = sizes((shape,), INVENTORY)
    assert (memory.tolist(), compute.tolist(), allowed.tolist()) == ([[100], [500]], [[300], [300]], [[True], [True]])
    assert smallest(memory, compute, allowed).tolist() == [300]


def test_only_the_heaviest_share_sizes_are_priced() -> None:
    """Sixty sizes, the larger the heavier, so that the smallest are left out."""
    demands = [(Shape(whole=False, memory_milli=400 + size), 100.0 + size) for size in range(60)]

    mix = WorkloadMix.of(demands, INVENTORY)

    assert [part.memory_milli for part in mix.parts] == list(range(420, 460))
    assert SIZES == 40


def test_the_prior_asks_for_its_part_of_the_cpu_and_memory_per_gpu() -> None:
    """Ten GPUs on nodes of different width: half of the tenth part beside a whole GPU, and shares of it."""
    mix = WorkloadMix.of([], INVENTORY)
    cpu, host = (int(amount.sum()) // 10 for amount in (INVENTORY.cpu_milli, INVENTORY.host_mib))

    assert {shape.memory_milli or 1_000: (shape.cpu_milli, shape.host_mib) for shape in mix.shapes} == {
        milli: (cpu * milli // 2_000, host * milli // 2_000) for milli in (250, 333, 500, 1_000)
    }


def test_the_prior_weighs_as_much_as_six_jobs() -> None:
    mix = WorkloadMix.of([(Shape(count=2), 6.0)], INVENTORY)

    assert weight_of(mix, Shape(count=2)) == PARTS // 2


def test_a_shape_has_no_size_on_a_kind_that_may_not_serve_it() -> None:
    shape = Shape(whole=False, memory_mib=8192, compute_milli=300, classes=("T4",))
    memory, compute, allowed = sizes((shape,), INVENTORY)
    assert (memory.tolist(), compute.tolist(), allowed.tolist()) == ([[0], [500]], [[0], [300]], [[False], [True]])


@pytest.mark.parametrize(
    ("jobs", "weight"),
    [(0.0, None), (0.0001, 166), (0.001, 166), (6.0, PARTS // 2)],
    ids=["none", "a trace", "a thousandth", "six"],
)
def test_a_shape_counts_while_any_weight_of_it_is_left(jobs: float, weight: int | None) -> None:
    """Weights are thousandths of a job beside the six jobs of the prior, rounded up to one."""
    shape = Shape(count=2)
    mix = WorkloadMix.of([(shape, jobs)], INVENTORY)

    assert (shape in mix.shapes) is (weight is not None)
    assert weight_of(mix, shape) == (weight or 0)


def test_on_a_single_gpu_the_prior_asks_for_half_of_all_cpu() -> None:
    mix = WorkloadMix.of([], Inventory.of([make_node("n1", gpus=1, cpu_milli=10_000, host_mib=4_000)]))

    assert [(shape.cpu_milli, shape.host_mib) for shape in mix.shapes if shape.whole] == [(5_000, 2_000)]


@pytest.mark.parametrize(
    ("last", "kept"), [(48.0, True), (49.0, False)], ids=["one in a thousand", "less than one in a thousand"]
)
def test_rare_shapes_count_from_one_in_a_thousand_on(last: float, kept: bool) -> None:
    """28 shapes are kept as they are: 27 of 35 jobs, and one of 48 or 49, with the prior 1,000 or 1,001 in all."""
    heavy = [(Shape(cpu_milli=cpu), 35.0) for cpu in range(1, EXACT)] + [(Shape(cpu_milli=EXACT), last)]
    rare = Shape(count=3)

    mix = WorkloadMix.of([*heavy, (rare, 1.0)], INVENTORY)

    assert (rare in mix.shapes) is kept
    assert weight_of(mix, rare) == (PARTS // 1000 if kept else 0)


def test_the_twenty_heaviest_groups_of_rare_shapes_are_kept() -> None:
    heavy = [(Shape(cpu_milli=cpu), 1_000.0) for cpu in range(EXACT)]
    tail = [(Shape(count=count), 100.0 + count) for count in range(2, 27)]

    mix = WorkloadMix.of([*heavy, *tail], INVENTORY)

    assert [shape.count for shape in mix.shapes if shape.count > 1] == list(range(7, 27))


def test_shares_given_in_different_units_are_not_averaged() -> None:
    """Units are MiB, parts of a GPU, and compute alone. The prior is in parts, without compute."""
    heavy = [(Shape(cpu_milli=cpu), 1_000.0) for cpu in range(EXACT)]
    tail = [
        Shape(whole=False, memory_mib=8_192, compute_milli=100),
        Shape(whole=False, memory_milli=400, compute_milli=200),
        Shape(whole=False, compute_milli=300),
    ]

    mix = WorkloadMix.of([*heavy, *((shape, 500.0) for shape in tail)], INVENTORY)

    assert set(tail) <= set(mix.shapes)


def test_a_shape_of_one_job_in_ten_thousand_does_not_decide_what_a_gpu_can_still_take() -> None:
    mix = WorkloadMix.of([(HALF, 10_000.0), (replace(HALF, cpu_milli=500), 1.0)], INVENTORY)
    assert [part for part in mix.parts if part.memory_milli == 500] == [HALF]


@pytest.mark.parametrize(
    ("heavy", "cpu_milli"), [(993.0, 500), (994.0, 4_000)], ids=["one in a thousand", "less than one in a thousand"]
)
def test_the_least_cpu_is_taken_from_shapes_of_at_least_one_in_a_thousand(heavy: float, cpu_milli: int) -> None:
    mix = WorkloadMix.of([(HALF, heavy), (replace(HALF, cpu_milli=500), 1.0)], INVENTORY)

    assert [part.cpu_milli for part in mix.parts if part.memory_milli == 500] == [min(cpu_milli, 3_200)]


def test_parts_are_single_gpus_with_their_part_of_the_cpu_and_are_weighted_per_gpu() -> None:
    """Four jobs of two GPUs beside the six of the prior: 400,000 twice, and 150,000 for each of four sizes."""
    mix = WorkloadMix.of([(Shape(count=2, cpu_milli=8_000), 4.0)], INVENTORY)

    assert dict(zip(mix.parts, mix.part_weight, strict=True)) == {
        Shape(cpu_milli=4_000): 950_000,
        Shape(whole=False, memory_milli=500, cpu_milli=3_200): 150_000,
        Shape(whole=False, memory_milli=333, cpu_milli=2_131): 150_000,
        Shape(whole=False, memory_milli=250, cpu_milli=1_600): 150_000,
    }


def test_a_nearly_faded_shape_keeps_its_own_host_memory() -> None:
    shape = Shape(count=2, host_mib=100)

    assert shape in WorkloadMix.of([(shape, 0.001)], INVENTORY).shapes


def test_nearly_faded_rare_shapes_are_left_out() -> None:
    heavy = [(Shape(cpu_milli=cpu), 1e6) for cpu in range(EXACT)]

    mix = WorkloadMix.of([*heavy, (Shape(count=3), 0.001)], INVENTORY)

    assert set(mix.shapes) == {shape for shape, _ in heavy}
