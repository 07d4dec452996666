"""Account of one budget in its period: what was spent, what was carried over, and until when that is summed up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cotenant.api.resources.queue_status import BudgetUsage, MoneyUsage
from cotenant.api.resources.queues import Budget, CarryOver
from cotenant.core.quota.budget import BudgetStanding, carried_over
from cotenant.decision_log.showback.periods import end_of, shown, start_of
from cotenant.decision_log.showback.prices import HOUR, PriceList


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    period_start: int
    counted_until: int
    """Unix seconds. GPU time before this moment is in the account."""
    held_milli: int = 0
    """Milli-GPU that were held then."""
    spent: int = 0
    """Milli-GPU × seconds."""
    carried: int = 0
    money: int = 0
    """Micro-units × milli-GPU × seconds in a GPU-hour. With this divisor, money is exact at any price."""
    money_carried: int = 0
    """Micro-units."""

    @classmethod
    def opened(cls, budget: Budget, now: int) -> Account:
        """Account of a new budget. GPU time before it is not charged."""
        return cls(period_start=start_of(budget.period, now), counted_until=now)

    @classmethod
    def written(cls, usage: BudgetUsage, now: int) -> Account | None:
        """The account that a status records; None if the status lacks a part of it."""
        if usage.period_start is None:
            return None
        money = usage.money or MoneyUsage()
        return cls(
            period_start=int(usage.period_start.timestamp()),
            counted_until=int(usage.counted_until.timestamp()) if usage.counted_until else now,
            held_milli=usage.held_milli,
            spent=usage.spent_milli_gpu_seconds,
            carried=usage.carried_milli_gpu_seconds,
            money=money.spent_micros * HOUR + money.spent_remainder,
            money_carried=money.carried_micros,
        )

    def charged(self, amounts: Mapping[str, int], prices: PriceList, until: int) -> Account:
        """The account with these milli-GPU × seconds by class added, at the prices of that time."""
        cost = sum(amount * (prices.at(name, self.counted_until) or 0) for name, amount in amounts.items())
        return replace(
            self,
            spent=max(0, self.spent + sum(amounts.values())),
            money=max(0, self.money + cost),
            counted_until=until,
        )

    def renewed(self, budget: Budget) -> Account:
        """The account of the next period. Charge this one up to the end of its period first."""
        opened = Account(period_start=self.counted_until, counted_until=self.counted_until, held_milli=self.held_milli)
        if budget.carry_over is not CarryOver.UNUSED:
            return opened
        percent = budget.carry_over_percent or 100
        carried, money = 0, 0
        if budget.gpu_hours is not None:
            carried = carried_over(budget.gpu_hours * 3600, self.carried, self.spent, percent)
        if budget.money is not None:
            money = carried_over(budget.money, self.money_carried, self.money // HOUR, percent)
        return replace(opened, carried=carried, money_carried=money)

    def standing(self, budget: Budget, currency: str) -> BudgetStanding:
        """The budget in the form by which the core judges admissions."""
        return BudgetStanding(
            until=shown(end_of(budget.period, self.period_start)),
            spent=self.spent,
            carried=self.carried,
            money_spent=self.money // HOUR,
            money_carried=self.money_carried,
            currency=currency,
        )
