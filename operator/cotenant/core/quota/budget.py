"""Arithmetic of a budget: what is left, what is carried into the next period, when it ends. Integers of one unit.

GPU-time is counted in milli-GPU × seconds, money in micro-units of a currency.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStanding:
    """What a queue has spent of its budget in the running period, and what the one before left over."""

    until: str = ""
    """End of the period, for a message."""
    spent: int = 0
    carried: int = 0
    money_spent: int = 0
    """Rounded down: never counted as spent before it is."""
    money_carried: int = 0
    currency: str = ""


NOTHING_SPENT = BudgetStanding()


def carried_over(granted: int, carried: int, spent: int, percent: int) -> int:
    """What is carried into the next period: everything that is left, at most `percent` of what a period grants.

    This includes what is left of an earlier carry, so any number of idle periods carry no more than the bound.
    """
    return min(left(granted, carried, spent), granted * percent // 100)


def left(granted: int, carried: int, spent: int) -> int:
    """What may still be spent; 0 if more was spent than granted, which happens because running jobs go on."""
    return max(0, granted + carried - spent)


def seconds_left(remaining: int, rate: int) -> int | None:
    """Seconds, rounded up, for which it suffices at `rate` units a second; None: for ever."""
    return -(-remaining // rate) if rate > 0 else None
