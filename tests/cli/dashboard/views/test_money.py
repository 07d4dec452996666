"""What the dashboard shows of money: sums of the ledger, and budgets."""

from __future__ import annotations

from typing import Any

from cotenant.dashboard.views.money import money_view
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
    view = money_view(CHARGES, [], Wish())
    assert [(row.line.name, row.hours("held"), row.hours("lost_to_faults"), row.cost) for row in view.rows] == [
        ("blue", 2.0, 0.0, "2.00 + ?"),
        ("red", 1.5, 0.5, "3.00"),
    ]
    assert (view.total.hours("held"), view.total.cost, view.currency) == (3.5, "5.00 + ?", "EUR")


def test_a_queue_that_is_asked_for_is_shown_alone() -> None:
    view = money_view(CHARGES, [], Wish(queue="a"))
    assert ([row.line.name for row in view.rows], view.total.cost) == (["red"], "3.00")


def test_without_charges_there_is_no_money() -> None:
    budget = {
        "metadata": {"name": "a"},
        "status": {"budget": {"money": {"spent": "1", "left": "2", "currency": "EUR"}}},
    }
    view = money_view([], [budget, {"metadata": {"name": "b"}}], Wish())
    assert (view.rows, view.currency, view.budgets) == ((), "", (("a", "1", "2", "EUR"),))
