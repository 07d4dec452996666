"""Fits and scores per state: the same as asked afresh, and each state is scored once per shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import LOWEST, FitCache, ShapeFit
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.scoring import Scores
from cotenant.core.placement.shapes import Shape
from cotenant.testing import make_node

HALF = Shape(whole=False, memory_milli=500)
US, THEM = Tenancy(1), Tenancy(2)
SHARE = NodeAllocation(
    row=1, columns=(0,), memory_mib=(40_960,), compute_milli=(500,), cpu_milli=0, host_mib=0, tenant=1
)
GPU = replace(SHARE, memory_mib=(81_920,), compute_milli=(1_000,))


class CountingScorer(BestFit):
    """Best fit that notes which rows it was asked to score."""

    def __init__(self) -> None:
        self.scored: list[list[int]] = []

    def score(self, ledger: Ledger, shape: Shape, rows: IntArray, fit: BoolArray) -> Scores:
        self.scored.append(rows.tolist())
        return super().score(ledger, shape, rows, fit)


def cache(nodes: int = 4) -> tuple[FitCache, CountingScorer]:
    scorer = CountingScorer()
    return FitCache(Ledger.of([make_node(f"n{number}") for number in range(nodes)]), scorer), scorer


def answers(fit: ShapeFit) -> tuple[object, ...]:
    rows = range(len(fit.capacity))
    return (
        fit.capacity.tolist(),
        fit.node_scores.tolist(),
        [fit.fits(row).tolist() for row in rows],
        [fit.gpu_scores(row).tolist() for row in rows],
        fit.all_fits().tolist(),
    )


def test_of_equal_nodes_one_is_scored_once() -> None:
    fit_cache, scorer = cache()
    first = fit_cache.shape_fit(HALF, US)

    assert fit_cache.shape_fit(HALF, US) is first
    assert scorer.scored == [[0]]
    assert first.capacity.tolist() == [2, 2, 2, 2]


def test_after_a_change_the_one_new_state_is_scored_and_a_roll_back_costs_nothing() -> None:
    fit_cache, scorer = cache()
    fit_cache.shape_fit(HALF, US)
    fit_cache.ledger.allocate(SHARE)
    fit_cache.shape_fit(HALF, US)
    fit_cache.ledger.release(SHARE)
    fit_cache.shape_fit(HALF, US)
    fit_cache.ledger.allocate(replace(SHARE, row=3))
    fit_cache.shape_fit(HALF, US)

    assert scorer.scored == [[0], [1]]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        pytest.param((HALF, US, True), (HALF, THEM, True), False, id="shares of two tenants are two questions"),
        pytest.param((Shape(), US, True), (Shape(), THEM, True), True, id="a whole GPU looks the same to all tenants"),
        pytest.param((HALF, US, True), (HALF, US, False), False, id="ranks together and apart are two questions"),
        pytest.param((HALF, US, True), (replace(HALF, cpu_milli=1), US, True), False, id="two shapes"),
    ],
)
def test_answers_are_shared_between(
    one: tuple[Shape, Tenancy, bool], other: tuple[Shape, Tenancy, bool], shared: bool
) -> None:
    fit_cache, _ = cache()
    first, second = (fit_cache.shape_fit(shape, who, distinct=distinct) for shape, who, distinct in (one, other))

    assert (first is second) is shared


def test_a_row_that_takes_none_has_the_lowest_score() -> None:
    fit_cache, _ = cache(2)
    fit_cache.ledger.allocate(replace(GPU, columns=(0, 1), memory_mib=(81_920,) * 2, compute_milli=(1_000,) * 2))
    fit = fit_cache.shape_fit(Shape(), US)

    assert fit.capacity.tolist() == [2, 0]
    assert fit.node_scores[1] == LOWEST < fit.node_scores[0]


STORY: Sequence[tuple[NodeAllocation, int]] = [
    (SHARE, 1),
    (replace(GPU, row=0), 1),
    (replace(SHARE, row=0, columns=(1,), tenant=2), 1),
    (replace(SHARE, row=3), 1),
    (SHARE, -1),
    (replace(GPU, row=2, columns=(0,)), 1),
    (replace(GPU, row=2, columns=(1,)), 1),
    (replace(GPU, row=0), -1),
]


@pytest.mark.parametrize("shape", [Shape(), HALF, Shape(whole=False, memory_milli=300, cpu_milli=100)])
@pytest.mark.parametrize("step", [1, 2, 8])
def test_answers_kept_through_changes_are_the_answers_of_a_new_cache(shape: Shape, step: int) -> None:
    """Asked after every change, after every second, and after all at once."""
    fit_cache, _ = cache()
    fit_cache.shape_fit(shape, US)
    for number, (allocation, sign) in enumerate(STORY, start=1):
        (fit_cache.ledger.allocate if sign > 0 else fit_cache.ledger.release)(allocation)
        if number % step == 0:
            afresh = FitCache(fit_cache.ledger.copy(), BestFit()).shape_fit(shape, US)
            assert answers(fit_cache.shape_fit(shape, US)) == answers(afresh)


def test_a_cache_made_of_a_ledger_that_was_written_before_starts_from_what_it_is() -> None:
    ledger = Ledger.of([make_node("n0"), make_node("n1")])
    ledger.allocate(SHARE)
    fit = FitCache(ledger, BestFit()).shape_fit(Shape(), US)

    assert fit.capacity.tolist() == [2, 1]
    assert fit.all_fits().tolist() == [[True, True], [False, True]]
    assert fit.seen == 1


def test_no_nodes_make_empty_answers() -> None:
    fit = FitCache(Ledger.of([]), BestFit()).shape_fit(Shape(), US)

    assert (fit.capacity.shape, fit.node_scores.shape, fit.all_fits().shape) == ((0,), (0,), (0, 0))
    assert np.iinfo(np.int64).min == LOWEST
