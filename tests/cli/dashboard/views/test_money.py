"""What the dashboard shows of money: sums of the ledger; budgets, to who may read Queues and to tenants."""

from __future__ import annotations

from typing import Any

from cotenant.dashboard.views.money import BudgetRow, budget_rows, money_view
from cotenant.dashboard.views.wish import Wish

HOUR = 3_600_000


def charge(namespace: str, queue: str, *, price: int | None = 2_000_000, **parts: int) -> dict[str, Any]:
    amounts = {"used": 0, "idle": 0, "lostToPreemption": 0, "lostToFaults": 0} | parts
    status = {"queue": queue, "user": "", "gpuClass": "H100", "since": 0, "until": 1, "month": 0, "currency": "EUR",
              "pricePerGPUHour": price, **amounts}  # fmt: skip
    return {"metadata": {"namespace": namespace, "name": "train", "uid": "u"}, "status": status}


CHARGES = [
    charge("red", "a", used=HOUR, lostToFaults=HOUR // 2),
    charge("blue", "b", idle=HOUR),
    charge("blue", "b", price=None, used=HOUR),
]


def test_every_namespace_has_what_it_held_and_what_that_cost() -> None:
    view = money_view(CHARGES, Wish())
    assert [(row.line.name, row.hours("held"), row.hours("lost_to_faults"), row.cost) for row in view.rows] == [
        ("blue", 2.0, 0.0, "2.00 + ?"),
        ("red", 1.5, 0.5, "3.00"),
    ]
    assert (view.total.hours("held"), view.total.cost, view.currency) == (3.5, "5.00 + ?", "EUR")


def test_a_queue_that_is_asked_for_is_shown_alone() -> None:
    view = money_view(CHARGES, Wish(queue="a"))
    assert ([row.line.name for row in view.rows], view.total.cost) == (["red"], "3.00")


def test_without_charges_there_is_no_money() -> None:
    view = money_view([], Wish())
    assert (view.rows, view.currency) == ((), "")


END = "2026-01-20T00:00:00Z"
PACE = {"burnDown": "37 % spent, 52 % of the month over", "projectedEnd": END}
QUEUE: dict[str, Any] = {
    "metadata": {"name": "a"},
    "status": {
        "budget": {**PACE, "spent": "37", "left": "63", "money": {"spent": "1", "left": "2", "currency": "EUR"}}
    },
}
LOCAL: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "red"},
    "status": {"budget": {**PACE, "left": "63", "moneyLeft": "2 EUR"}},
}
WITHOUT: dict[str, Any] = {"metadata": {"name": "b"}, "status": {}}


def row(spent: str, left: str) -> BudgetRow:
    return BudgetRow(queue="a", spent=spent, left=left, burn_down=PACE["burnDown"], ends=1_768_867_200.0)


def test_each_limit_is_a_row_with_its_pace_and_the_day_it_ends() -> None:
    assert budget_rows([QUEUE, WITHOUT], [LOCAL]) == (row("1 EUR", "2 EUR"), row("37 GPU-hours", "63 GPU-hours"))


def test_a_tenant_sees_what_is_left_of_the_budgets_of_the_own_queues() -> None:
    assert budget_rows([], [LOCAL, WITHOUT]) == (row("", "2 EUR"), row("", "63 GPU-hours"))


def test_a_budget_that_lasts_has_no_end_and_money_alone_no_hours() -> None:
    money = {"metadata": {"name": "a"}, "status": {"budget": {"spent": "3", "money": {"spent": "1", "left": "2"}}}}
    assert budget_rows([money]) == (BudgetRow(queue="a", spent="1", left="2", burn_down="", ends=None),)
