"""Rows that were written, as lists of those that are few, or each once."""

from __future__ import annotations

from array import array

import pytest

from cotenant.core.placement.changed_rows import FEW, distinct_rows, few_rows


@pytest.mark.parametrize("changes", [[], [3], [5, 2, 5], [7, 0] * FEW])
def test_each_changed_row_is_listed_once_in_order(changes: list[int]) -> None:
    assert distinct_rows(array("q", changes), 9).tolist() == sorted(set(changes))


@pytest.mark.parametrize(
    ("changes", "few"), [([], set()), ([4, 1, 4], {1, 4}), ([2] * 4 * FEW, {2}), ([2] * 4 * FEW + [2], None)]
)
def test_changed_rows_are_listed_only_if_they_are_few(changes: list[int], few: set[int] | None) -> None:
    assert few_rows(array("q", changes)) == few
    assert few_rows(array("q", range(FEW + 1))) is None
