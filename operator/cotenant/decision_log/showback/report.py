"""Charges in a span of time, summed by namespace, queue, user, job or class, and priced.

Money is rounded down to a micro-unit once for each charge, month and price, and these amounts are summed, so lines
always add up to their total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cotenant.core.model.objects import Period
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.periods import periods_within, start_of
from cotenant.decision_log.showback.prices import HOUR, PriceList


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedCharge:
    """Part of a charge in one month at one price."""

    charge: UsageCharge
    month: int
    """Its beginning, Unix seconds."""
    price: int | None
    """Micro-units for a GPU-hour; None if its class had no price."""

    @property
    def micros(self) -> int:
        """Its cost, rounded down to a micro-unit; 0 without a price."""
        return self.charge.held * (self.price or 0) // HOUR


def priced(charges: Iterable[UsageCharge], since: int, until: int, prices: PriceList) -> Iterator[PricedCharge]:
    """Charges of [since, until), divided where months and prices change."""
    for charge in charges:
        first, last = max(since, charge.since), min(until, max(charge.until, charge.since + 1))
        for begun, ended in periods_within(Period.MONTH, first, last):
            for a, b in prices.parts(begun, ended):
                part = charge.within(a, b)
                if part is not None and part.held:
                    yield PricedCharge(charge=part, month=start_of(Period.MONTH, a), price=prices.at(part.gpu_class, a))


@dataclass(slots=True, kw_only=True)
class ShowbackLine:
    """Amounts in milli-GPU × seconds; money in micro-units."""

    name: str
    used: int = 0
    idle: int = 0
    lost_to_preemption: int = 0
    lost_to_faults: int = 0
    micros: int = 0
    unpriced: int = 0
    """The part of `held` in classes without a price."""

    @property
    def held(self) -> int:
        """Sum of the four parts."""
        return self.used + self.idle + self.lost_to_preemption + self.lost_to_faults

    def add(self, one: PricedCharge) -> None:
        self.used += one.charge.used
        self.idle += one.charge.idle
        self.lost_to_preemption += one.charge.lost_to_preemption
        self.lost_to_faults += one.charge.lost_to_faults
        self.micros += one.micros
        self.unpriced += one.charge.held if one.price is None else 0


BY: Final[Mapping[str, Callable[[UsageCharge], str]]] = {
    "namespace": lambda one: one.namespace,
    "queue": lambda one: one.queue,
    "user": lambda one: one.user or "(unknown)",
    "job": lambda one: f"{one.namespace}/{one.name}",
    "class": lambda one: one.gpu_class or "(unknown)",
}


def added_up(parts: Iterable[PricedCharge], by: str) -> list[ShowbackLine]:
    """A line for each group, the one that held most first."""
    key, lines = BY[by], dict[str, ShowbackLine]()
    for one in parts:
        name = key(one.charge)
        lines.setdefault(name, ShowbackLine(name=name)).add(one)
    return sorted(lines.values(), key=lambda line: (-line.held, line.name))


def costs_by_uid(charges: Iterable[UsageCharge], until: int, prices: PriceList) -> dict[str, ShowbackLine]:
    """Uid of a job → a line for everything that it held before `until`."""
    lines: dict[str, ShowbackLine] = {}
    for one in priced(charges, 0, until, prices):
        lines.setdefault(one.charge.uid, ShowbackLine(name=one.charge.uid)).add(one)
    return lines


def total(parts: Iterable[PricedCharge]) -> ShowbackLine:
    """All of them in one line."""
    line = ShowbackLine(name="all")
    for one in parts:
        line.add(one)
    return line
