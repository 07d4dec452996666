"""Scores are computed once for each state of a node and each shape, and kept within bounds."""

from __future__ import annotations

import pytest

from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement import BestFit, score_book
from cotenant.core.placement.score_book import ScoreBook
from cotenant.core.placement.shapes import Shape
from tests.support.clusters import make_node

ONE, TWO, SHARE = Shape(), Shape(count=2), Shape(whole=False, memory_milli=200)


def test_scores_of_a_shape_are_kept_while_others_are_asked_for() -> None:
    book = ScoreBook(BestFit())
    first = book.answers(ONE)
    assert book.answers(TWO) is not first
    assert book.answers(SHARE) is not first
    assert book.answers(ONE) is first


def test_the_least_recently_used_shape_is_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_book, "_ANSWERS", 1)
    book = ScoreBook(BestFit())
    book.numbers(Ledger.of([make_node("n1")]), [0])
    first, second = book.answers(ONE), book.answers(TWO)
    assert book.answers(ONE) is first
    book.answers(SHARE)
    assert book.answers(ONE) is first
    assert book.answers(TWO) is not second


def test_states_keep_their_numbers_from_one_cycle_to_the_next() -> None:
    ledger = Ledger.of([make_node(f"n{index:02}", gpus=1, cpu_milli=1_000 * (index % 12)) for index in range(24)])
    rows = range(24)
    first = ScoreBook(BestFit())
    numbers = first.numbers(ledger, rows)
    assert numbers == [*range(12), *range(12)]
    ledger.free_cpu[20] = 99_000
    then = ScoreBook(BestFit(), first)
    assert then.numbers(ledger, [3, 20]) == [numbers[3], 12]
    assert then.numbers(ledger, rows) == [*numbers[:20], 12, *numbers[21:]]
    assert then.answers(ONE) is not first.answers(ONE)
