"""Reductions over the GPUs of each row: the same for few rows and for many, and as numpy's own."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.core.gpus.row_reductions import counts, most


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 300])
@pytest.mark.parametrize("columns", [1, 8, 255, 256])
def test_rows_are_reduced_one_by_one_whatever_their_number(rows: int, columns: int) -> None:
    numbers = np.random.default_rng(rows * columns).integers(-(1 << 62), 1 << 62, (rows, columns))

    assert most(numbers).tolist() == [max(row) for row in numbers.tolist()]
    assert counts(numbers > 0).tolist() == [sum(value > 0 for value in row) for row in numbers.tolist()]


@pytest.mark.parametrize("columns", [255, 256])
def test_rows_that_are_true_throughout_are_counted_whole(columns: int) -> None:
    assert counts(np.ones((20, columns), dtype=np.bool_)).tolist() == [columns] * 20


def test_the_largest_of_a_window_into_wider_rows_is_that_of_the_window() -> None:
    wide = np.arange(40 * 6).reshape(40, 6)

    assert most(wide[:, 1:3]).tolist() == wide[:, 2].tolist()
