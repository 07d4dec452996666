"""What the status of a Queue says of its budget: what is left, how it burns down, when it ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.api.resources.queues import Budget
from cotenant.controller.cluster.budgets.account import Account
from cotenant.controller.cluster.budgets.budget_usage import budget_usage
from cotenant.decision_log.showback.prices import HOUR, PriceList

DAY = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp())
NOON = DAY + 12 * 3600


def shown(budget: dict[str, Any], **account: int) -> dict[str, Any]:
    found = Account(period_start=DAY, counted_until=NOON, **account)
    usage = budget_usage(Budget.model_validate({"period": "Day"} | budget), found, PriceList("EUR"), NOON)
    return usage.to_document()


@pytest.mark.parametrize(
    ("held", "left_s", "end"),
    [
        (1000, 3600, "2026-11-21T13:00:00Z"),
        (2500, 3601, "2026-11-21T12:24:01Z"),
        (1000, 12 * 3600, None),
        (0, 3600, None),
        (1000, 0, "2026-11-21T12:00:00Z"),
    ],
    ids=["in an hour", "to the second, rounded up", "not before the period does", "nothing is held", "it has ended"],
)
def test_a_budget_ends_when_what_is_held_now_has_used_it_up(held: int, left_s: int, end: str | None) -> None:
    usage = shown({"gpuHours": 100}, spent=100 * HOUR - 1000 * left_s, held_milli=held)
    assert usage.get("projectedEnd") == end


def test_of_money_and_hours_the_one_that_ends_first_says_when() -> None:
    account = {"spent": 2 * HOUR, "money": 10_000_000 * HOUR, "held_milli": 1000}
    money, both = {"money": 15}, {"money": 15, "gpuHours": "2.5"}
    assert [shown(one, **account)["projectedEnd"] for one in (money, both)] == [
        "2026-11-21T13:00:00Z",
        "2026-11-21T12:30:00Z",
    ]


def test_everything_is_said_exactly_and_for_people() -> None:
    account = {"spent": 5_436_000, "carried": 3_600_000, "money": 1_250_000 * HOUR + 7, "money_carried": 500_000}
    assert shown({"gpuHours": 2, "money": "2.5"}, **account) == {
        "spentMilliGPUSeconds": 5_436_000,
        "carriedMilliGPUSeconds": 3_600_000,
        "spent": "1.51",
        "left": "1.49",
        "money": {
            "spentMicros": 1_250_000,
            "spentRemainder": 7,
            "carriedMicros": 500_000,
            "spent": "1.25",
            "left": "1.75",
            "currency": "EUR",
        },
        "burnDown": "50 % spent, 50 % of the day over",
        "countedUntil": "2026-11-21T12:00:00Z",
        "heldMilliGPU": 0,
        "periodStart": "2026-11-21T00:00:00Z",
        "periodEnd": "2026-11-22T00:00:00Z",
    }


def test_more_than_the_budget_leaves_nothing() -> None:
    usage = shown({"gpuHours": 999}, spent=10**6 * HOUR)
    assert (usage["spent"], usage["left"]) == ("1000000", "0")


def test_a_period_that_was_edited_a_moment_ago_ends_when_the_new_one_does() -> None:
    month = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())
    found = Account(period_start=month, counted_until=NOON)
    usage = budget_usage(Budget.model_validate({"period": "Day", "gpuHours": 1}), found, PriceList("EUR"), NOON)
    assert usage.to_document()["periodEnd"] == "2026-11-22T00:00:00Z"
    assert usage.burn_down == "0 % spent, 50 % of the day over"
