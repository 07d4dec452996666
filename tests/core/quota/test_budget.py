"""Arithmetic of budgets."""

from __future__ import annotations

import pytest

from cotenant.core.quota.budget import carried_over, left, seconds_left


@pytest.mark.parametrize(
    ("granted", "carried", "spent", "percent", "next_gets"),
    [(100, 0, 30, 100, 70), (100, 0, 30, 50, 50), (100, 80, 0, 100, 100), (100, 20, 130, 100, 0), (3, 0, 0, 50, 1)],
    ids=["what is left", "to the bound", "no heap grows", "overspent", "rounded down"],
)
def test_unused_budget_is_carried_over_up_to_its_bound(
    granted: int, carried: int, spent: int, percent: int, next_gets: int
) -> None:
    assert carried_over(granted, carried, spent, percent) == next_gets


def test_an_overspent_budget_carries_nothing_over() -> None:
    assert (left(100, 20, 119), left(100, 20, 121)) == (1, 0)


@pytest.mark.parametrize(
    ("remaining", "rate", "seconds"), [(10, 3, 4), (9, 3, 3), (10, 1, 10), (0, 3, 0), (10, 0, None)]
)
def test_a_protection_lasts_for_whole_seconds_rounded_up(remaining: int, rate: int, seconds: int | None) -> None:
    assert seconds_left(remaining, rate) == seconds
