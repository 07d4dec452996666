"""`cotenant showback`: tables, exact forms, months."""

from __future__ import annotations

import json

import pytest

from cotenant.cli.errors import UserError
from cotenant.cli.tenants import showback
from cotenant.cli.tenants.showback import ShowbackAnswer, month_of, shown
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.prices import Price, PriceList
from cotenant.decision_log.showback.report import BY, priced

CHARGES = [
    UsageCharge(
        namespace="red",
        name="train",
        uid="u",
        queue="research",
        user="ann",
        gpu_class="H100",
        since=100,
        until=200,
        used=3_600_000,
        idle=360_000,
        lost_to_preemption=36_000,
    ),
    UsageCharge(
        namespace="red", name="eval", uid="v", queue="ops", gpu_class="T4", since=100, until=200, used=3_600_000
    ),
]


def asked(*, prices: bool = True) -> ShowbackAnswer:
    known = PriceList("EUR", (Price(gpu_class="H100", micros=2_000_000),)) if prices else PriceList()
    return ShowbackAnswer(list(priced(CHARGES, 0, 1000, known)), known.currency, truncated=False)


def test_what_can_be_added_up_by_is_what_the_report_adds_up_by() -> None:
    assert sorted(BY) == list(showback.BY)


def test_a_table_is_in_gpu_hours_and_money_with_a_total() -> None:
    assert shown(asked(), "queue", "text").splitlines() == [
        "QUEUE      GPU-HOURS   USED   IDLE   LOST TO PREEMPTION   LOST TO FAULTS   COST (EUR)",
        "research   1.11        1.00   0.10   0.010                0.00             2.22",
        "ops        1.00        1.00   0.00   0.00                 0.00             0.00 + ?",
        "all        2.11        2.00   0.10   0.010                0.00             2.22 + ?",
    ]


def test_without_prices_there_is_no_money() -> None:
    assert "COST" not in shown(asked(prices=False), "user", "text")
    assert shown(ShowbackAnswer([], "EUR", truncated=False), "user", "text") == "Nothing was held in this time."


def test_other_forms_are_exact() -> None:
    (first, second) = json.loads(shown(asked(), "job", "json"))["items"]
    assert (first["held"], first["lostToPreemption"], first["cost"], first["unpriced"]) == (
        3_996_000,
        36_000,
        2_220_000,
        0,
    )
    assert shown(asked(), "job", "csv").splitlines() == [
        "name,held,used,idle,lostToPreemption,lostToFaults,cost,unpriced,currency",
        "red/train,3996000,3600000,360000,36000,0,2220000,0,EUR",
        "red/eval,3600000,3600000,0,0,0,0,3600000,EUR",
    ]
    assert (second["name"], second["unpriced"], second["currency"]) == ("red/eval", 3_600_000, "EUR")


def test_a_month_is_in_utc() -> None:
    since, until = month_of("2026-02")
    assert (since, until - since) == (1_769_904_000, 28 * 86_400)
    with pytest.raises(UserError, match="give a year and a month"):
        month_of("February")
