"""The account of a budget as the status of its Queue shows it: exactly, and for people. Pure."""

from __future__ import annotations

from datetime import datetime

from cotenant.api.resources.queue_status import BudgetUsage, MoneyUsage
from cotenant.api.resources.queues import Budget
from cotenant.api.scalars.fields import moment
from cotenant.controller.cluster.budgets.account import Account
from cotenant.core.model.formatting import format_money
from cotenant.core.quota.budget import left, seconds_left
from cotenant.decision_log.showback.periods import end_of, start_of
from cotenant.decision_log.showback.prices import HOUR, PriceList


def budget_usage(budget: Budget, account: Account, prices: PriceList, now: int) -> BudgetUsage:
    # Not the account's own start: until its next charge, that is of the period before an edit.
    start = start_of(budget.period, account.counted_until)
    end = end_of(budget.period, start)
    return BudgetUsage(
        spent_milli_gpu_seconds=account.spent,
        carried_milli_gpu_seconds=account.carried,
        spent=_hours(account.spent),
        left="" if budget.gpu_hours is None else _hours(left(budget.gpu_hours * 3600, account.carried, account.spent)),
        money=_money(budget, account, prices.currency),
        burn_down=_burn_down(budget, account, (start, end), now),
        projected_end=_projected_end(budget, account, prices, end),
        counted_until=moment(account.counted_until),
        held_milli=account.held_milli,
        period_start=moment(account.period_start),
        period_end=moment(end),
    )


def _money(budget: Budget, account: Account, currency: str) -> MoneyUsage | None:
    if budget.money is None:
        return None
    spent, rest = divmod(account.money, HOUR)
    return MoneyUsage(
        spent_micros=spent,
        spent_remainder=rest,
        carried_micros=account.money_carried,
        spent=format_money(spent),
        left=format_money(left(budget.money, account.money_carried, spent)),
        currency=currency,
    )


def _burn_down(budget: Budget, account: Account, period: tuple[int, int], now: int) -> str:
    """Burn-down of the limit (GPU-hours or money) of which the larger part is spent."""
    parts = []
    if budget.gpu_hours is not None:
        parts.append(account.spent * 100 // (budget.gpu_hours * 3600 + account.carried))
    if budget.money is not None:
        parts.append(account.money * 100 // HOUR // (budget.money + account.money_carried))
    start, end = period
    over = min(100, max(0, now - start) * 100 // (end - start))
    return f"{max(parts)} % spent, {over} % of the {budget.period.lower()} over"


def _projected_end(budget: Budget, account: Account, prices: PriceList, end: int) -> datetime | None:
    """When the budget runs out at the current rate.

    The rate of money is the average of the period so far, because GPUs that are held now may be of several classes.
    """
    ends = []
    if budget.gpu_hours is not None:
        remaining = left(budget.gpu_hours * 3600, account.carried, account.spent)
        ends.append(seconds_left(remaining, account.held_milli))
    if budget.money is not None and account.spent:
        remaining = left(budget.money, account.money_carried, account.money // HOUR) * HOUR
        ends.append(seconds_left(remaining, account.held_milli * account.money // account.spent))
    found = min((one for one in ends if one is not None), default=None)
    if found is None or account.counted_until + found >= end:
        return None
    return moment(account.counted_until + found)


def _hours(milli_gpu_seconds: int) -> str:
    hundredths = milli_gpu_seconds // 36_000
    return f"{hundredths // 100}.{hundredths % 100:02d}".rstrip("0").rstrip(".")
