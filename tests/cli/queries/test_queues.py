"""`cotenant queues`: what it shows of budgets."""

from __future__ import annotations

from typing import Any

from cotenant.cli.queries.queues import lines


def queue(name: str, **budget: Any) -> dict[str, Any]:
    status = {"depth": 0, "guaranteed": "4", "used": "1", "borrowed": "0", "quotas": [], "holding": 1, "waiting": 0,
              "broken": "", "share": {"ppm": 0}} | ({"budget": budget} if budget else {})  # fmt: skip
    return {"metadata": {"name": name}, "status": status}


def test_budgets_have_columns_where_a_queue_has_one() -> None:
    (shown,) = lines([queue("red", left="1.5", periodEnd=""), queue("blue")], wide=False)
    assert [line.split()[8:] for line in shown.splitlines()[1:]] == [
        ["%", "1.5", "GPU-hours", "-", "-"],
        ["%", "-", "-", "-"],
    ]
    (without,) = lines([queue("blue")], wide=False)
    assert "BUDGET" not in without


def test_money_stands_beside_hours_and_the_day_on_which_it_ends() -> None:
    money = {"left": "12.50", "currency": "EUR"}
    (shown,) = lines(
        [queue("red", left="3", money=money, projectedEnd="2026-11-21T12:00:00Z", periodEnd="2026-12-01T00:00:00Z")],
        wide=False,
    )
    assert "3 GPU-hours, 12.50 EUR" in shown
    assert shown.splitlines()[1].endswith("2026-11-21 12:00Z   2026-12-01 00:00Z")


def test_below_the_table_stands_which_queue_is_held_and_why() -> None:
    held = queue("red")
    held["status"]["hold"] = "maintenance"
    _, *below = lines([held, queue("blue")], wide=False)
    assert below == ["red is held, and none of its jobs starts: maintenance"]
