"""Scores of one share for all tenants: kept through any changes, they are those of every row scored anew."""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.gpus.inventory import IntArray
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.placement import Packing
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import room
from cotenant.core.placement.room_scores import FEW, LOWEST, distinct_rows, few_rows
from cotenant.core.placement.scoring import Scorer
from cotenant.core.placement.shapes import Shape
from cotenant.testing import make_node
from tests.core.placement.kept_fits import HALF, SHARE
from tests.core.placement.test_fit_cache import lay, used_nodes

SHARES = (
    HALF,
    Shape(whole=False, memory_milli=300, cpu_milli=3_000),
    Shape(whole=False, memory_mib=9_000, host_mib=9_000),
)


def anew(ledger: Ledger, scorer: Scorer, shape: Shape) -> IntArray:
    rows = np.arange(len(ledger.packed))
    roomy = room(ledger, shape, rows)
    able = (ledger.free_cpu >= shape.cpu_milli) | (shape.cpu_milli == 0)
    able &= (ledger.free_host >= shape.host_mib) | (shape.host_mib == 0)
    return np.where(roomy & able[:, None], scorer.score(ledger, shape, rows, roomy).gpu, LOWEST)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_scores_kept_through_changes_are_those_of_every_row_scored_anew(data: st.DataObject) -> None:
    ledger = Ledger.of(data.draw(used_nodes()))
    scorer = Packing().prepare(ledger, [(Shape(cpu_milli=4_000), 3.0), (HALF, 5.0)])
    fit_cache, held = FitCache(ledger, scorer), list[NodeAllocation]()
    shapes = data.draw(st.lists(st.sampled_from(SHARES), min_size=1, max_size=3))
    for _ in range(data.draw(st.integers(1, 6))):
        shape = data.draw(st.sampled_from(shapes))
        if scorer.scope(shape).value == "GPU":
            assert fit_cache.room_scores(shape).scores().tolist() == anew(ledger, scorer, shape).tolist()
        for _ in range(data.draw(st.sampled_from((0, 1, 3, 20)))):
            lay(data.draw, ledger, held)


def test_gpus_that_somebody_else_holds_are_scored_as_well() -> None:
    ledger = Ledger.of([make_node("n0"), make_node("n1")])
    ledger.allocate(SHARE)
    fit_cache = FitCache(ledger, Packing().prepare(ledger, [(HALF, 1.0)]))

    assert (fit_cache.room_scores(HALF).scores() > LOWEST).all()


def test_rows_without_the_cpu_have_the_lowest_scores() -> None:
    ledger = Ledger.of([make_node("n0", cpu_milli=1_000), make_node("n1", cpu_milli=9_000)])
    fit_cache = FitCache(ledger, Packing().prepare(ledger, [(HALF, 1.0)]))
    scores = fit_cache.room_scores(replace(HALF, cpu_milli=2_000)).scores()

    assert ((scores > LOWEST).any(axis=1)).tolist() == [False, True]


def test_all_class_options_of_a_share_have_the_same_scores() -> None:
    ledger = Ledger.of([make_node("n0")])
    fit_cache = FitCache(ledger, Packing().prepare(ledger, [(HALF, 1.0)]))

    assert fit_cache.room_scores(replace(HALF, only_class="H100")) is fit_cache.room_scores(HALF)


def test_of_many_shares_the_one_that_was_not_asked_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cotenant.core.placement.fit_cache._ROWS", 0)
    ledger = Ledger.of([make_node("n0")])
    fit_cache = FitCache(ledger, Packing().prepare(ledger, [(HALF, 1.0)]))
    first, second = (fit_cache.room_scores(replace(HALF, cpu_milli=milli)) for milli in (1, 2))
    for milli in (*range(3, 9), 1, 9):
        fit_cache.room_scores(replace(HALF, cpu_milli=milli))

    assert fit_cache.room_scores(replace(HALF, cpu_milli=1)) is first
    assert fit_cache.room_scores(replace(HALF, cpu_milli=2)) is not second


@pytest.mark.parametrize("changes", [[], [3], [5, 2, 5], [7, 0] * FEW])
def test_rows_that_were_written_are_named_once_in_order(changes: list[int]) -> None:
    assert distinct_rows(array("q", changes), 9).tolist() == sorted(set(changes))


@pytest.mark.parametrize(
    ("changes", "few"), [([], set()), ([4, 1, 4], {1, 4}), ([2] * 4 * FEW, {2}), ([2] * 4 * FEW + [2], None)]
)
def test_rows_are_few_where_few_of_them_were_written_not_very_often(changes: list[int], few: set[int] | None) -> None:
    assert few_rows(array("q", changes)) == few
    assert few_rows(array("q", range(FEW + 1))) is None
