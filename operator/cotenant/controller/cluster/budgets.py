"""Budget that each queue has spent in the running period: kept here between writes of the Queues' statuses.

Periods begin at 00:00 UTC (day, Monday, first of the month). The account lives in `Queue.status.budget`; after a start
it is taken up from there, so at most what ran since the last write is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from cotenant.api.resources.queue_status import BudgetUsage
from cotenant.api.resources.queues import Period, Queue


@dataclass(frozen=True, slots=True)
class _Account:
    period_start: datetime
    spent: float = 0.0
    """Milli-GPU-seconds."""


class Budgets:
    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self.revision = 0
        """Grows whenever what a queue has spent changes."""
        self._charged_at: float | None = None

    def charge(self, queues: Mapping[str, Queue], held: Mapping[str, int], now: float) -> None:
        """`held` is milli-GPU by queue, descendants included, since the last call."""
        passed = 0.0 if self._charged_at is None else max(0.0, now - self._charged_at)
        self._charged_at = now
        for name, queue in queues.items():
            if queue.spec.budget is None:
                self._accounts.pop(name, None)
                continue
            account = self._account(name, queue, now)
            charged = replace(account, spent=account.spent + held.get(name, 0) * passed)
            if charged != self._accounts.get(name):
                self._accounts[name] = charged
                self.revision += 1

    def spent(self, name: str) -> int:
        account = self._accounts.get(name)
        return int(account.spent) if account else 0

    def until(self, queue: Queue, now: float) -> str:
        """End of the running period of its budget, as a date for people; empty without a budget."""
        if queue.spec.budget is None:
            return ""
        period = queue.spec.budget.period
        return end_of(period, start_of(period, datetime.fromtimestamp(now, UTC))).strftime("%Y-%m-%dT%H:%MZ")

    def usage(self, queue: Queue, now: float) -> BudgetUsage | None:
        """For the status of the queue."""
        budget = queue.spec.budget
        if budget is None:
            return None
        account = self._account(queue.metadata.name or "", queue, now)
        granted = budget.gpu_hours * 3600
        return BudgetUsage(
            spent_milli_gpu_seconds=int(account.spent),
            spent=_hours(account.spent),
            left=_hours(max(0.0, granted - account.spent)),
            period_start=account.period_start,
            period_end=end_of(budget.period, account.period_start),
        )

    def _account(self, name: str, queue: Queue, now: float) -> _Account:
        """Of the running period: as kept here, else as the status of the queue has it, else empty."""
        if queue.spec.budget is None:
            raise ValueError(f"queue {name} has no budget")
        start = start_of(queue.spec.budget.period, datetime.fromtimestamp(now, UTC))
        kept, written = self._accounts.get(name), queue.status.budget
        if kept is not None:
            return kept if kept.period_start == start else _Account(start)
        same = written is not None and written.period_start == start
        return _Account(start, float(written.spent_milli_gpu_seconds) if written and same else 0.0)


def start_of(period: Period, moment: datetime) -> datetime:
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period is Period.DAY:
        return day
    return day - timedelta(days=day.weekday()) if period is Period.WEEK else day.replace(day=1)


def end_of(period: Period, start: datetime) -> datetime:
    if period is Period.MONTH:
        return (start + timedelta(days=32)).replace(day=1)
    return start + timedelta(days=1 if period is Period.DAY else 7)


def _hours(milli_gpu_seconds: float) -> str:
    return f"{milli_gpu_seconds / 3_600_000:.2f}".rstrip("0").rstrip(".")
