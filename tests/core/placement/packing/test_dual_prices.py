"""Prices of shares: the dual of cutting stock, and the knapsack that reads them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.placement.packing.dual_prices import UNIT, FloatArray, add_item, dual_prices

SIZES = st.lists(st.integers(120, 1000), min_size=1, max_size=4, unique=True)


def patterns(sizes: list[int]) -> list[tuple[int, ...]]:
    """Every set of shares that fits one GPU."""
    counts = product(*(range(1000 // size + 1) for size in sizes))
    return [p for p in counts if sum(n * s for n, s in zip(p, sizes, strict=True)) <= 1000]


@pytest.mark.parametrize(
    ("demand", "want"),
    [
        pytest.param(((1000, 5),), (UNIT,), id="a whole GPU costs a GPU"),
        pytest.param(((810, 5), (470, 7)), (UNIT, UNIT // 2), id="810 blocks a GPU, 470 goes in pairs"),
        pytest.param(((650, 10), (320, 30)), (666_667, 333_333), id="650 leaves room for one 320"),
        pytest.param(((810, 5), (160, 1)), (UNIT, 0), id="what fits beside the big ones is free"),
        pytest.param(((333, 9),), (333_333,), id="thirds"),
    ],
)
def test_a_share_is_priced_at_the_part_of_a_gpu_it_takes_in_the_best_packing(
    demand: tuple[tuple[int, int], ...], want: tuple[int, ...]
) -> None:
    assert dual_prices(demand) == want


@settings(deadline=None)
@given(sizes=SIZES, data=st.data())
def test_no_set_of_shares_on_one_gpu_costs_more_than_the_gpu(sizes: list[int], data: st.DataObject) -> None:
    demand = tuple((size, data.draw(st.integers(1, 1000))) for size in sizes)
    price = dual_prices(demand)
    dearest = max(sum(n * u for n, u in zip(p, price, strict=True)) for p in patterns(sizes))
    assert dearest <= UNIT + len(sizes) * 12


@settings(deadline=None)
@given(sizes=SIZES, data=st.data())
def test_prices_are_the_best_there_are(sizes: list[int], data: st.DataObject) -> None:
    """Strong duality: some packing of the demand needs just as many GPUs as the prices say."""
    scipy = pytest.importorskip("scipy.optimize")
    weights = [data.draw(st.integers(1, 1000)) for _ in sizes]
    every = np.array(patterns(sizes)).T
    packed = scipy.linprog(np.ones(every.shape[1]), A_ub=-every, b_ub=-np.array(weights), method="highs")
    total = sum(u * w for u, w in zip(dual_prices(tuple(zip(sizes, weights, strict=True))), weights, strict=True))
    assert total / UNIT == pytest.approx(packed.fun, rel=1e-4, abs=1e-3)


@settings(deadline=None)
@given(sizes=SIZES, data=st.data(), level=st.integers(0, 1000))
def test_the_knapsack_equals_trying_every_set_of_shares(sizes: list[int], data: st.DataObject, level: int) -> None:
    values = [data.draw(st.integers(0, UNIT)) for _ in sizes]
    best = np.zeros(1001)
    for size, value in zip(sizes, values, strict=True):
        best = add_item(best, size, float(value))
    fits = [p for p in patterns(sizes) if sum(n * s for n, s in zip(p, sizes, strict=True)) <= level]
    assert best[level] == max(sum(n * v for n, v in zip(p, values, strict=True)) for p in fits)


def test_the_price_search_needs_about_three_patterns_per_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pattern fills one knapsack per size; the last one is worth no more than a GPU."""
    filled = []

    def counting(best: FloatArray, size: int, value: FloatArray | float) -> FloatArray:
        filled.append(size)
        return add_item(best, size, value)

    monkeypatch.setattr("cotenant.core.placement.packing.dual_prices.add_item", counting)
    demand = ((811, 51), (473, 7), (311, 33), (157, 19))

    assert len(dual_prices.__wrapped__(demand)) == len(demand)
    assert len(filled) <= len(demand) * 3 * len(demand)
