"""Rest of a queue's budget, for the namespaces that the queue serves. Pure.

It is written into every such namespace, so it is rounded: a queue that holds a thousand GPUs spends a hundredth of a
GPU-hour in 36 ms.
"""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Final

from cotenant.api.resources.queue_status import BudgetUsage, LocalBudget, LocalQueueStatus
from cotenant.api.resources.queues import Queue

EXACT_BELOW: Final = 10
"""Below this amount, hundredths are shown."""


def with_budget(status: LocalQueueStatus, queue: Queue | None) -> LocalQueueStatus:
    """The status with the rest of the budget, if the queue has a budget that was charged already."""
    if queue is None or queue.spec.budget is None or queue.status.budget is None:
        return status
    return status.model_copy(update={"budget": local_budget(queue.status.budget)})


def local_budget(usage: BudgetUsage) -> LocalBudget:
    money = usage.money
    return LocalBudget(
        left=_coarse(usage.left),
        money_left=f"{_coarse(money.left)} {money.currency}".strip() if money else "",
        burn_down=usage.burn_down,
        projected_end=_hour(usage.projected_end),
        period_end=usage.period_end,
    )


def _coarse(amount: str) -> str:
    """`1234.56` → `1234`, `9.876543` → `9.87`."""
    if not amount:
        return ""
    step = Decimal(1) if Decimal(amount) >= EXACT_BELOW else Decimal("0.01")
    rounded = Decimal(amount).quantize(step, ROUND_FLOOR)
    return amount if rounded == Decimal(amount) else str(rounded)


def _hour(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(minute=0, second=0, microsecond=0)
