"""Budget of a queue: GPU-hours, money or both for each period, and what becomes of what is left of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from cotenant.api.scalars.amounts import GpuHours, Money
from cotenant.api.scalars.fields import whole
from cotenant.api.validation.rules import Model, Rule
from cotenant.core.model.objects import Period


class CarryOver(StrEnum):
    NONE = "None"
    UNUSED = "Unused"


class Budget(Model):
    gpu_hours: GpuHours | None = None
    """GPUs × hours that the queue's jobs may use in each period. Default: as many as the money pays."""
    money: Money | None = None
    """What they may cost in each period, in the currency of the operator's price list. A class without a price costs
    nothing. Default: no such limit."""
    period: Period
    """Periods begin at 00:00 UTC: every day, on Mondays, on the first of the month."""
    carry_over: CarryOver = CarryOver.NONE
    """Whether what is left at the end of a period is added to the next."""
    carry_over_percent: Annotated[int, *whole(1, 1000)] | None = None
    """The most that is added, in percent of the budget of one period. Default: 100."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "gpuHours",
            "has(self.gpuHours) || has(self.money)",
            "a budget needs gpuHours, money or both; write for example gpuHours: 100",
            lambda it: it.gpu_hours is not None or it.money is not None,
        ),
        Rule(
            "carryOverPercent",
            "!has(self.carryOverPercent) || (has(self.carryOver) && self.carryOver == 'Unused')",
            "carryOverPercent bounds what is carried over; write carryOver: Unused beside it, or leave it out",
            lambda it: it.carry_over_percent is None or it.carry_over is CarryOver.UNUSED,
        ),
    )
