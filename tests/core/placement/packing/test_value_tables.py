"""Value of a GPU with so much free: what can still be packed into it, net of CPU, and workers of each shape."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.placement.packing.dual_prices import UNIT
from cotenant.core.placement.packing.value_tables import LEVELS, ValueTables, part_prices, rough_weight
from cotenant.core.placement.packing.workload_mix import WorkloadMix
from cotenant.core.placement.shapes import Shape
from tests.support.clusters import make_node

HALF = Shape(whole=False, memory_milli=500, cpu_milli=1_000)
HEAVY = [(HALF, 1e6)]
"""So much of it that the prior has no weight beside it."""
PRICES = np.array([0.0, 100.0, 1_000.0])


def inventory(*classes: str) -> Inventory:
    return Inventory.of([make_node(f"n-{name}", gpus=1, gpu_class=name) for name in classes or ("H100",)])


def tables(demands: list[tuple[Shape, float]], *classes: str) -> tuple[ValueTables, WorkloadMix]:
    found = inventory(*classes)
    mix = WorkloadMix.of(demands, found)
    return ValueTables(mix, found, PRICES), mix


@pytest.mark.parametrize(
    ("free", "packed"),
    [
        pytest.param(0, [0, 0, 0], id="nothing is worth nothing"),
        pytest.param(499, [0, 0, 0], id="less than the smallest share is worth nothing"),
        pytest.param(500, [UNIT // 2, UNIT // 2 - 100_000, 0], id="a half less the price of its CPU, never below zero"),
        pytest.param(999, [UNIT // 2, UNIT // 2 - 100_000, 0], id="what is left beside a half is worth nothing"),
        pytest.param(1_000, [UNIT, UNIT - 200_000, 0], id="a whole GPU holds two halves"),
    ],
)
def test_a_residual_is_worth_the_best_packing_into_it(free: int, packed: list[int]) -> None:
    found, _ = tables(HEAVY)

    assert found.at(np.array(0), np.array(free), np.array(free))[:3].tolist() == pytest.approx(packed, abs=1)


def test_workers_of_each_shape_are_counted_per_residual() -> None:
    """Down to the smallest share there is, of 1 milli."""
    found, mix = tables([(HALF, 6.0), (Shape(), 6.0), (Shape(whole=False, memory_milli=1), 6.0)])
    sizes = mix.size.tolist()

    assert min(sizes) == 1
    for free in (0, 249, 250, 333, 499, 500, 666, 667, 1_000):
        assert found.at(np.array(0), np.array(free), np.array(free))[3:].tolist() == [free // size for size in sizes]


def test_each_kind_has_its_own_rows_and_takes_only_allowed_shapes() -> None:
    only = Shape(whole=False, memory_milli=500, classes=("A100",))
    found, mix = tables([(only, 6.0)], "A100", "H100")
    place = 3 + mix.shapes.index(only)
    everything = np.array(1_000)

    assert found.at(np.array(0), everything, everything)[place] == 2
    assert found.at(np.array(LEVELS), everything, everything)[place] == 0
    assert found.at(np.array([0, LEVELS]), np.array([1_000, 0]), np.array([1_000, 0])).shape == (2, 3 + len(mix.shapes))


def test_if_both_dimensions_have_equal_tables_the_smaller_amount_counts() -> None:
    found, _ = tables(HEAVY)

    assert found.even
    assert found.at(np.array(0), np.array(1_000), np.array(500)).tolist() == (
        found.at(np.array(0), np.array(500), np.array(500)).tolist()
    )


def test_if_the_tables_differ_the_worse_of_both_counts() -> None:
    """A share of 100 of the memory and 500 of the compute: ten by memory, two by compute."""
    uneven = Shape(whole=False, memory_milli=100, compute_milli=500)
    found, mix = tables([(uneven, 1e6)])
    place = 3 + mix.shapes.index(uneven)

    def workers(memory: int, compute: int) -> int:
        return int(found.at(np.array(0), np.array(memory), np.array(compute))[place])

    assert not found.even
    assert [workers(1_000, 1_000), workers(100, 1_000), workers(99, 1_000), workers(1_000, 499)] == [2, 1, 0, 0]


def test_without_gpus_there_is_nothing_to_look_up_and_no_error() -> None:
    nothing = Inventory.of([])
    found = ValueTables(WorkloadMix.of([], nothing), nothing, PRICES)

    assert found.at(np.array(0), np.array(1_000), np.array(1_000)).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("memory_mib", "alike"), [(32_768, True), (32_769, True), (32_851, False)])
@pytest.mark.parametrize("jobs", [1e6, 0.001], ids=["the common shape", "a shape too rare to be priced"])
def test_dimensions_that_differ_only_by_rounding_count_as_equal(jobs: float, memory_mib: int, alike: bool) -> None:
    """400 of the compute of a GPU with 81,920 MiB, and 400, 401 or 402 of its memory, each rounded up."""
    found, _ = tables([(HALF, 1e3), (Shape(whole=False, memory_mib=memory_mib, compute_milli=400), jobs)])

    assert found.even == alike


def test_merged_shapes_with_equal_means_do_not_make_dimensions_equal() -> None:
    """28 shapes are kept; the two after them lean to either side and become one of 401 and 401."""
    heavy = [(Shape(cpu_milli=cpu), 1e3) for cpu in range(28)]
    leaning = [
        (Shape(whole=False, memory_milli=memory, compute_milli=compute), 500.0)
        for memory, compute in ((400, 402), (402, 400))
    ]
    found, mix = tables([*heavy, *leaning])

    assert (mix.memory == mix.compute).all()
    assert not found.even


def test_tables_that_later_cycles_look_up_cannot_be_written() -> None:
    found, mix = tables(HEAVY)
    everything = np.array([1_000])
    before = found.at(np.array([0]), everything, everything)
    before[:] = -1

    assert (ValueTables(mix, inventory(), PRICES).at(np.array([0]), everything, everything) >= 0).all()
    with pytest.raises(ValueError, match="read-only"):
        found.at(np.array(0), np.array(1_000), np.array(1_000))[:] = -1


@pytest.mark.parametrize(
    ("weight", "rough"),
    [(0, 1), (1, 1), (7, 7), (8, 8), (9, 8), (15, 14), (16, 16), (19, 16), (20, 20), (1_000, 896), (1_023, 896)],
)
def test_weights_are_rounded_to_their_three_leading_bits(weight: int, rough: int) -> None:
    assert rough_weight(weight) == rough


@pytest.mark.parametrize(
    ("sizes", "weights", "prices"),
    [
        ([1_000], (0,), [UNIT]),
        ([600, 400], (8, 1), [UNIT, 0]),
        ([600, 400, 600], (1, 3, 2), [UNIT // 2, UNIT // 2, UNIT // 2]),
        ([250, 200, 300], (5, 0, 3), [UNIT // 4, 166_667, UNIT // 3]),
        ([200, 600], (5, 3), [0, UNIT]),
        ([700, 400, 300], (1, 2, 0), [3 * UNIT // 4, UNIT // 2, UNIT // 4]),
    ],
)
def test_a_part_has_the_dual_price_of_its_size(sizes: list[int], weights: tuple[int, ...], prices: list[int]) -> None:
    """All that is wanted of one size weighs together."""
    assert part_prices(sizes, weights) == prices
