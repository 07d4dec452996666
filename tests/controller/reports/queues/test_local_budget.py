"""What the namespaces of a queue see of its budget."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cotenant.api.resources.queue_status import BudgetUsage, LocalQueueStatus, MoneyUsage
from cotenant.controller.reports.queues.local_budget import local_budget, with_budget


@pytest.mark.parametrize(
    ("counted", "seen"),
    [("", ""), ("0", "0"), ("9.87", "9.87"), ("10", "10"), ("1234.56", "1234"), ("9.999999", "9.99")],
)
def test_amounts_are_rounded_down_and_exact_to_a_hundredth_when_little_is_left(counted: str, seen: str) -> None:
    assert local_budget(BudgetUsage(left=counted)).left == seen


def test_money_has_its_currency_and_moments_are_of_an_hour_so_that_not_every_second_is_a_write() -> None:
    usage = BudgetUsage(
        left="12.75",
        money=MoneyUsage(left="80.25", currency="EUR"),
        burn_down="37 % spent, 52 % of the month over",
        projected_end=datetime(2026, 12, 28, 9, 41, 7, tzinfo=UTC),
        period_end=datetime(2027, 1, 1, tzinfo=UTC),
    )
    seen = local_budget(usage)
    assert (seen.left, seen.money_left, seen.burn_down) == ("12", "80 EUR", "37 % spent, 52 % of the month over")
    assert seen.projected_end == datetime(2026, 12, 28, 9, tzinfo=UTC)
    assert seen.period_end == datetime(2027, 1, 1, tzinfo=UTC)


def test_a_queue_without_a_budget_shows_none() -> None:
    assert with_budget(LocalQueueStatus(), None).budget is None
