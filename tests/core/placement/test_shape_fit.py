"""One shape over all rows: each state is judged and scored once, and answers are those of a row judged by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cotenant.core.gpus.inventory import Rows
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.objects import Node
from cotenant.core.placement import Packing
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.scoring import LOWEST
from cotenant.core.placement.shapes import Shape
from tests.core.placement.kept_fits import GPU, HALF, SHARE, THEM, US, CountingScorer, answers, cache
from tests.support.clusters import make_node


def test_each_node_is_scored_once() -> None:
    fit_cache, scorer = cache()
    first = fit_cache.shape_fit(HALF, US)

    assert fit_cache.shape_fit(HALF, US) is first
    assert first.capacity.tolist() == [2, 2, 2, 2]
    assert len(set(first.node_scores.tolist())) == 1
    assert scorer.scored == [[0, 1, 2, 3]]


def test_scoring_is_lazy_and_leaves_out_rows_that_take_no_worker() -> None:
    fit_cache, scorer = cache(2)
    fit_cache.ledger.allocate(replace(GPU, columns=(0, 1), memory_mib=(81_920,) * 2, compute_milli=(1_000,) * 2))
    fit = fit_cache.shape_fit(HALF, US)
    before = fit.capacity.tolist(), list(scorer.scored)

    assert fit.node_scores[1] == LOWEST
    assert (*before, scorer.scored) == ([2, 0], [], [[0]])


def test_after_a_change_only_that_node_is_scored_and_states_that_come_back_are_not() -> None:
    fit_cache, scorer = cache()
    _ = fit_cache.shape_fit(HALF, US).node_scores
    fit_cache.ledger.allocate(SHARE)
    _ = fit_cache.shape_fit(HALF, US).node_scores
    fit_cache.ledger.release(SHARE)
    _ = fit_cache.shape_fit(HALF, US).node_scores
    fit_cache.ledger.allocate(replace(SHARE, row=3))
    _ = fit_cache.shape_fit(HALF, US).node_scores

    assert scorer.scored == [[0, 1, 2, 3], [1], [1]]


def test_nodes_are_scored_once_for_all_tenants() -> None:
    """The second tenant may not share the first GPU of the second row."""
    fit_cache, scorer = cache()
    fit_cache.ledger.allocate(SHARE)
    ours, theirs = (fit_cache.shape_fit(HALF, tenancy).node_scores.tolist() for tenancy in (US, THEM))

    assert scorer.scored == [[0, 1, 2, 3]]
    assert ours[1] > theirs[1] > theirs[0] == ours[0]


def test_a_row_that_takes_no_worker_has_the_lowest_score() -> None:
    fit_cache, _ = cache(2)
    fit_cache.ledger.allocate(replace(GPU, columns=(0, 1), memory_mib=(81_920,) * 2, compute_milli=(1_000,) * 2))
    fit = fit_cache.shape_fit(Shape(), US)

    assert fit.capacity.tolist() == [2, 0]
    assert fit.node_scores[1] == LOWEST < fit.node_scores[0]


def different_nodes(number: int) -> list[Node]:
    """No two are in equal states; the first GPU of some is in use."""
    sizes = [(20_000 + 7_919 * (index * 31 % number), 100_000 + 523 * index) for index in range(number)]
    return [make_node(f"n{index:03}", cpu_milli=cpu, host_mib=host) for index, (cpu, host) in enumerate(sizes)]


ALIKE = [Shape(whole=False, memory_milli=405 + step, cpu_milli=500 + 301 * step) for step in range(30)]


@pytest.mark.parametrize("rows", [slice(None), np.arange(1, 200, 2)], ids=["of all", "of every second"])
def test_the_best_row_is_the_one_with_the_best_of_all_scores(rows: Rows) -> None:
    """Each shape is placed, so that nodes fill up while bounds of them are kept."""
    ledger = Ledger.of(different_nodes(200))
    kept = FitCache(ledger, Packing().prepare(ledger, [(shape, 1.0) for shape in ALIKE]))
    for shape in ALIKE * 2:
        scores = FitCache(ledger.copy(), kept.scorer).shape_fit(shape, US).node_scores
        fit, best = kept.shape_fit(shape, US), int(np.arange(200)[rows][scores[rows].argmax()])
        assert fit.best_row(rows) == best
        assert fit.score(best) == scores[best]
        column = int(fit.gpu_scores(best).argmax())
        milli, cpu = shape.memory_milli, shape.cpu_milli
        ledger.allocate(NodeAllocation(best, (column,), (milli * 81_920 // 1_000,), (milli,), cpu, 0, US.tenant))


def test_of_many_shapes_alike_only_the_first_are_scored_on_all_nodes() -> None:
    """The third brings the bounds, the others take a few rows each."""
    ledger = Ledger.of(different_nodes(200))
    scorer = CountingScorer()
    fit_cache = FitCache(ledger, scorer)
    for shape in ALIKE:
        fit_cache.shape_fit(shape, US).best_row(slice(None))

    assert [len(rows) for rows in scorer.scored] == [200] * 3 + [16] * (len(ALIKE) - 2)


def test_the_best_row_is_none_if_no_row_takes_one() -> None:
    fit_cache, _ = cache(2)

    assert fit_cache.shape_fit(Shape(count=9), US).best_row(slice(None)) is None
    assert fit_cache.shape_fit(HALF, US).best_row(np.zeros(0, dtype=np.int64)) is None


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
def test_cached_answers_after_changes_equal_those_of_a_new_cache(shape: Shape, step: int) -> None:
    """Asked after every change, after every second, and after all at once."""
    fit_cache, _ = cache()
    fit_cache.shape_fit(shape, US)
    for number, (allocation, sign) in enumerate(STORY, start=1):
        (fit_cache.ledger.allocate if sign > 0 else fit_cache.ledger.release)(allocation)
        if number % step == 0:
            afresh = FitCache(fit_cache.ledger.copy(), BestFit()).shape_fit(shape, US)
            assert answers(fit_cache.shape_fit(shape, US)) == answers(afresh)


@pytest.mark.parametrize("shape", [HALF, Shape(whole=False, count=2, memory_milli=300)])
def test_scores_by_prices_after_changes_equal_those_of_a_new_cache(shape: Shape) -> None:
    """Shapes have one GPU, or two, whose score depends on which GPUs fit together."""
    ledger = Ledger.of([make_node(f"n{number}") for number in range(4)])
    scorer = Packing().prepare(ledger, [(HALF, 1.0), (shape, 1.0)])
    kept = FitCache(ledger, scorer)
    for allocation, sign in STORY:
        (ledger.allocate if sign > 0 else ledger.release)(allocation)
        for tenancy in (US, THEM):
            afresh = FitCache(ledger.copy(), scorer).shape_fit(shape, tenancy)
            assert answers(kept.shape_fit(shape, tenancy)) == answers(afresh)


def test_answers_stay_right_when_more_states_come_up_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cotenant.core.placement.shape_scores._STATES", 2)
    fit_cache, _ = cache()
    _ = fit_cache.shape_fit(HALF, US).node_scores
    for milli in range(100, 200):
        fit_cache.ledger.allocate(replace(SHARE, row=milli % 4, compute_milli=(milli % 7,), memory_mib=(milli % 5,)))
        afresh = FitCache(fit_cache.ledger.copy(), BestFit()).shape_fit(HALF, US)
        assert answers(fit_cache.shape_fit(HALF, US)) == answers(afresh)


def test_a_cache_of_a_written_ledger_starts_from_its_present_content() -> None:
    ledger = Ledger.of([make_node("n0"), make_node("n1")])
    ledger.allocate(SHARE)
    fit = FitCache(ledger, BestFit()).shape_fit(Shape(), US)

    assert fit.capacity.tolist() == [2, 1]
    assert fit.all_fits().tolist() == [[True, True], [False, True]]


def test_no_nodes_make_empty_answers() -> None:
    fit = FitCache(Ledger.of([]), BestFit()).shape_fit(Shape(), US)

    assert (fit.capacity.shape, fit.node_scores.shape, fit.all_fits().shape) == ((0,), (0,), (0, 0))
    assert np.iinfo(np.int64).min == LOWEST
