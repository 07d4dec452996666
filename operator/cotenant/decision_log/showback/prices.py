"""The price list: what a GPU of a class costs per hour, and for which time. Integers of micro-units, no floats.

The cost is amount × price / 3,600,000, with the amount in milli-GPU × seconds. Products are summed, and the sum is
rounded down to a micro-unit once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, pairwise
from typing import Any, Final

from cotenant.api.scalars.quantities import QuantityError, parse_money

HOUR: Final = 3_600_000
"""Milli-GPU × seconds of a GPU-hour."""
ANY_CLASS: Final = "*"
_ENTRY: Final = frozenset({"gpuClass", "perGPUHour", "from", "until"})
PRICES_MAX: Final = 1_000


class PriceError(ValueError):
    """The price list is invalid. The message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    gpu_class: str
    """Class, or `*` for every class without a price of its own at that time."""
    micros: int
    """Micro-units for a GPU-hour."""
    since: int | None = None
    until: int | None = None
    """Unix seconds; None means until further notice."""

    def holds(self, at: int) -> bool:
        """True from `since` until just before `until`."""
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)


@dataclass(frozen=True, slots=True)
class PriceList:
    currency: str = ""
    prices: tuple[Price, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.prices)

    def at(self, gpu_class: str, at: int) -> int | None:
        """Micro-units for a GPU-hour of the class then; None if it has no price."""
        for name in (gpu_class, ANY_CLASS):
            for price in self.prices:
                if price.gpu_class == name and price.holds(at):
                    return price.micros
        return None

    def highest(self, at: int) -> int:
        """The highest price of any class then; 0 if none has a price."""
        return max((price.micros for price in self.prices if price.holds(at)), default=0)

    def parts(self, since: int, until: int) -> Iterator[tuple[int, int]]:
        """Parts of [since, until) in which no price changes; one part if the list is empty."""
        edges = {edge for price in self.prices for edge in (price.since, price.until) if edge is not None}
        yield from pairwise((since, *sorted(edge for edge in edges if since < edge < until), until))


NO_PRICES: Final = PriceList()


def price_list_of(text: str) -> PriceList:
    """Price list of a JSON text; an empty list for an empty text. Raises PriceError."""
    try:
        document = json.loads(text or "{}")
    except ValueError as error:
        raise PriceError(f"prices: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise PriceError("prices must be an object with currency and classes")
    return parse_prices(document)


def parse_prices(document: Mapping[str, Any]) -> PriceList:
    """`{currency: EUR, classes: [{gpuClass: H100, perGPUHour: "2.50", from: …, until: …}]}`. Raises PriceError."""
    if not document:
        return PriceList()
    _refuse_unknown(document, frozenset({"currency", "classes"}), "prices")
    currency, entries = document.get("currency"), document.get("classes")
    if not isinstance(currency, str) or re.fullmatch("[A-Z]{3}", currency) is None:
        raise PriceError(f"prices.currency must be three capital letters of ISO 4217, such as EUR, not {currency!r}")
    if not isinstance(entries, list) or not 0 < len(entries) <= PRICES_MAX:
        raise PriceError(f"prices.classes must be a list of 1 to {PRICES_MAX} prices")
    prices = tuple(_price(entry, f"prices.classes[{number}]") for number, entry in enumerate(entries))
    for (one, a), (other, b) in combinations(enumerate(prices), 2):
        if a.gpu_class == b.gpu_class and _meet(a, b):
            raise PriceError(
                f"prices.classes[{other}] holds at the same time as prices.classes[{one}], for {a.gpu_class}:"
                " end one with `until` where the other begins with `from`"
            )
    return PriceList(currency, prices)


def _price(entry: Any, path: str) -> Price:
    if not isinstance(entry, dict):
        raise PriceError(f"{path} must be an object with gpuClass and perGPUHour")
    _refuse_unknown(entry, _ENTRY, path)
    gpu_class = entry.get("gpuClass")
    if not isinstance(gpu_class, str) or not 0 < len(gpu_class) <= 63:
        raise PriceError(f"{path}.gpuClass must be the name of a class, or {ANY_CLASS} for every other one")
    given = entry.get("perGPUHour")
    try:
        if isinstance(given, bool) or not isinstance(given, int | str):
            raise QuantityError("a decimal point needs quotes")
        micros = parse_money(given)
    except QuantityError:
        raise PriceError(
            f'{path}.perGPUHour must be an amount of money in quotes, such as "2.50", not {given!r}'
        ) from None
    since, until = _moment(entry.get("from"), f"{path}.from"), _moment(entry.get("until"), f"{path}.until")
    if since is not None and until is not None and until <= since:
        raise PriceError(f"{path}.until must be after {path}.from")
    return Price(gpu_class=gpu_class, micros=micros, since=since, until=until)


def _moment(value: Any, path: str) -> int | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None or found.microsecond:
        raise PriceError(f'{path} must be a moment with its zone, to the second, such as "2026-01-01T00:00:00Z"')
    return int(found.timestamp())


def _meet(a: Price, b: Price) -> bool:
    return (a.until is None or b.since is None or b.since < a.until) and (
        b.until is None or a.since is None or a.since < b.until
    )


def _refuse_unknown(document: Mapping[str, Any], known: frozenset[str], path: str) -> None:
    for name in document:
        if name not in known:
            raise PriceError(f"{path}.{name} is no field; there are {', '.join(sorted(known))}")
