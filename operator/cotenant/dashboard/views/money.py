"""The GPU-hours of this month by namespace, their use and cost; budgets, how fast they go and when they end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.core.model.formatting import format_cost
from cotenant.dashboard.reading.rows import instant
from cotenant.dashboard.views.wish import Wish
from cotenant.decision_log.showback.prices import HOUR
from cotenant.decision_log.showback.report import ShowbackLine, added_up, total
from cotenant.decision_log.showback.showback_documents import priced_charge

ROWS_MAX = 200
GPU_HOURS = "GPU-hours"


@dataclass(frozen=True, slots=True)
class MoneyRow:
    line: ShowbackLine

    def hours(self, part: str) -> float:
        """GPU-hours of one part, by its field, or of everything that was held."""
        return float(getattr(self.line, part)) / HOUR

    @property
    def cost(self) -> str:
        """The cost, with a question mark if a class has no price."""
        return format_cost(self.line.micros) + (" + ?" if self.line.unpriced else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyView:
    rows: tuple[MoneyRow, ...]
    total: MoneyRow
    currency: str
    """The currency; empty if there are no prices, and then no money is shown."""


def money_view(charges: Iterable[Mapping[str, Any]], wish: Wish) -> MoneyView:
    """The page. `charges`: Showback documents. The total leaves out what a filter leaves out."""
    chosen = [one for one in charges if wish.queue in ("", one["status"]["queue"])]
    parts = [priced_charge(one) for one in chosen]
    return MoneyView(
        rows=tuple(MoneyRow(line) for line in added_up(parts, "namespace")[:ROWS_MAX]),
        total=MoneyRow(total(parts)),
        currency=next((one["status"]["currency"] for one in chosen), ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    queue: str
    spent: str
    """With its unit; empty if the viewer may not know it."""
    left: str
    burn_down: str
    """`37 % spent, 52 % of the month over`."""
    ends: float | None
    """Unix seconds; None if it lasts for the period."""


def budget_rows(
    queues: Iterable[Mapping[str, Any]], local_queues: Iterable[Mapping[str, Any]] = ()
) -> tuple[BudgetRow, ...]:
    """A row for each limit, in GPU-hours and in money. `local_queues`: for a viewer who may not read Queues."""
    found = [row for one in queues for row in _of_queue(one)] or [row for one in local_queues for row in _of_local(one)]
    return tuple(sorted(found, key=lambda row: (row.queue, row.left)))


def _of_queue(queue: Mapping[str, Any]) -> Iterator[BudgetRow]:
    budget = (queue.get("status") or {}).get("budget") or {}
    money = budget.get("money") or {}
    if budget.get("left"):
        yield _row(queue, budget, str(budget.get("spent", "")), str(budget["left"]), GPU_HOURS)
    if money.get("left"):
        yield _row(queue, budget, str(money.get("spent", "")), str(money["left"]), str(money.get("currency", "")))


def _of_local(queue: Mapping[str, Any]) -> Iterator[BudgetRow]:
    budget = (queue.get("status") or {}).get("budget") or {}
    if budget.get("left"):
        yield _row(queue, budget, "", str(budget["left"]), GPU_HOURS)
    if budget.get("moneyLeft"):
        yield _row(queue, budget, "", str(budget["moneyLeft"]), "")


def _row(queue: Mapping[str, Any], budget: Mapping[str, Any], spent: str, left: str, unit: str) -> BudgetRow:
    return BudgetRow(
        queue=str(queue["metadata"]["name"]),
        spent=f"{spent} {unit}".strip() if spent else "",
        left=f"{left} {unit}".strip(),
        burn_down=str(budget.get("burnDown", "")),
        ends=instant(budget.get("projectedEnd")),
    )
