"""The GPU-hours of this month by queue and namespace, their use and cost; and the budgets in money."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.core.model.formatting import format_money
from cotenant.dashboard.views.wish import Wish
from cotenant.decision_log.showback.prices import HOUR
from cotenant.decision_log.showback.report import ShowbackLine, added_up, total
from cotenant.decision_log.showback.showback_documents import priced_charge

ROWS_MAX = 200


@dataclass(frozen=True, slots=True)
class MoneyRow:
    line: ShowbackLine

    def hours(self, part: str) -> float:
        """GPU-hours of one part, by its field, or of everything that was held."""
        return float(getattr(self.line, part)) / HOUR

    @property
    def cost(self) -> str:
        """The cost to a hundredth, with a question mark if a class has no price."""
        return format_money(self.line.micros // 10_000 * 10_000) + (" + ?" if self.line.unpriced else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyView:
    rows: tuple[MoneyRow, ...]
    total: MoneyRow
    currency: str
    """The currency; empty if there are no prices, and then no money is shown."""
    budgets: tuple[tuple[str, str, str, str], ...]
    """(queue, spent, left, currency) of budgets in money."""


def money_view(charges: Iterable[Mapping[str, Any]], queues: Iterable[Mapping[str, Any]], wish: Wish) -> MoneyView:
    """The page. `charges`: Showback documents. The total leaves out what a filter leaves out."""
    chosen = [one for one in charges if wish.queue in ("", one["status"]["queue"])]
    parts = [priced_charge(one) for one in chosen]
    budgets = [
        (
            str(queue["metadata"]["name"]),
            str(money.get("spent", "")),
            str(money.get("left", "")),
            money.get("currency", ""),
        )
        for queue in queues
        if (money := ((queue.get("status") or {}).get("budget") or {}).get("money"))
    ]
    return MoneyView(
        rows=tuple(MoneyRow(line) for line in added_up(parts, "namespace")[:ROWS_MAX]),
        total=MoneyRow(total(parts)),
        currency=next((one["status"]["currency"] for one in chosen), ""),
        budgets=tuple(sorted(budgets)),
    )
