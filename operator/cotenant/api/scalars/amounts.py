"""Amounts in documents: reader, printer and schema of each. The core has them as integers in base units.

A type is an `Annotated` integer with three parts: a reader, a printer, and its schema with its one rule in CEL. For an
amount in a list, the cost limit of rules decides the schema. The API server of Kubernetes 1.32 assumes a whole number
or text as long as a request may be, whatever `maxLength` says, times the entries of the list. So in lists memory is
always text (`listed`), and GPUs have their grammar in `pattern` and are compared as `double`, which costs nothing and
is exact for ten digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic.config import JsonDict

from cotenant.api.scalars import quantities, respellings
from cotenant.api.scalars.fields import cel_text
from cotenant.api.scalars.quantities import QuantityError
from cotenant.api.validation.rules import ValueRefusedError, given
from cotenant.core.model.formatting import format_duration, format_gpus, format_money


@dataclass(frozen=True, slots=True)
class _Grammar:
    """How one kind of amount is read, and how amounts of other systems are translated."""

    parse: Callable[[Any], int]
    respell: Callable[[Any], Any]


_DECIMAL = _Grammar(quantities.parse_decimal, respellings.decimal)
_GPUS = _Grammar(quantities.parse_gpus, respellings.decimal)
_MONEY = _Grammar(quantities.parse_money, respellings.decimal)
_MEMORY = _Grammar(quantities.parse_memory, respellings.memory)
_FRACTION = _Grammar(quantities.parse_fraction, respellings.fraction)
_TIME = _Grammar(quantities.parse_duration, respellings.duration)


def _reader(grammar: _Grammar, message: str, fits: Callable[[int], bool], *, number: bool) -> BeforeValidator:
    """Validator that parses an amount. Its error says what is allowed. With `number`, whole numbers are
    accepted too.
    """
    written = "as a whole number or in quotes" if number else "in quotes"

    def instead(value: Any) -> Any:
        meant = grammar.respell(value)
        try:
            return meant if meant is not None and fits(grammar.parse(meant)) else None
        except QuantityError:
            return None

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str if number else str):
            raise ValueRefusedError(message, f"; write it {written}, not as {given(value)}", instead(value))
        try:
            amount = grammar.parse(value)
        except QuantityError as error:
            raise ValueRefusedError(message, f"; {error}", instead(value)) from None
        if not fits(amount):
            raise ValueRefusedError(message, f", not {given(value)}", instead(value))
        return amount

    return BeforeValidator(read)


def _schema(rule: str, message: str, *, number: bool) -> JsonDict:
    kind: JsonDict = {"x-kubernetes-int-or-string": True} if number else {"type": "string"}
    return {**kind, "maxLength": 24, "x-kubernetes-validations": [{"rule": rule, "message": message}]}


def _positive(grammar: _Grammar, pattern: str, most: str, message: str, show: Callable[[int], str]) -> Any:
    """Metadata of an amount above 0 and up to `most`, as a whole number or a text."""
    highest = grammar.parse(most)
    rule = (
        f"string(self).matches({cel_text(pattern)}) && quantity(string(self)).compareTo(quantity('0')) > 0"
        f" && quantity(string(self)).compareTo(quantity('{most}')) <= 0"
    )
    reader = _reader(grammar, message, lambda amount: 0 < amount <= highest, number=True)
    return reader, PlainSerializer(show, return_type=str), WithJsonSchema(_schema(rule, message, number=True))


def _decimal(most: str, *, of: str, show: Callable[[int], str] = format_gpus) -> Any:
    message = (
        f'must be a number of {of} more than 0 and at most {most}, such as 2, "0.5" or "500m", with at most'
        " three decimals"
    )
    return _positive(_DECIMAL, quantities.DECIMAL, most, message, show)


def _gpus(most: int) -> Any:
    """Metadata of an amount from 0 to `most` GPUs, as a whole number or a text."""
    message = f'must be a number of GPUs from 0 to {most}, such as 2 or "0.5", with at most three decimals'
    rule = f"double(self) >= 0.0 && double(self) <= {float(most)}"
    reader = _reader(_GPUS, message, lambda amount: amount <= most * quantities.MILLI, number=True)
    schema: JsonDict = {**_schema(rule, message, number=True), "pattern": quantities.GPUS}
    return reader, PlainSerializer(format_gpus, return_type=str), WithJsonSchema(schema)


def _money(most: str) -> Any:
    message = (
        f'must be an amount of money more than 0 and at most {most}, such as 250 or "2.50", with at most six decimals'
    )
    return _positive(_MONEY, quantities.MONEY, most, message, format_money)


def _memory(low: str, high: str, *, listed: bool = False) -> Any:
    """Metadata of an amount of memory within bounds, as a number of bytes or a text; with `listed`, as a text only."""
    least, most = quantities.parse_memory(low), quantities.parse_memory(high)
    message = f'must be an amount of memory from {low} to {high}, such as "16Gi" or "512Mi"'
    it = "self" if listed else "string(self)"
    rule = (
        f"{it}.matches({cel_text(quantities.MEMORY)}) && quantity({it}).compareTo(quantity('{low}')) >= 0"
        f" && quantity({it}).compareTo(quantity('{high}')) <= 0"
    )
    reader = _reader(_MEMORY, message, lambda amount: least <= amount <= most, number=not listed)
    schema = _schema(rule, message, number=not listed)
    return reader, PlainSerializer(quantities.show_memory, return_type=str), WithJsonSchema(schema)


def _fraction() -> Any:
    """Metadata of a part of one GPU, always a text."""
    message = (
        "must be more than 0 and less than 1 (for whole GPUs use count), in quotes, at most three decimals,"
        ' such as "0.4"'
    )
    reader = _reader(_FRACTION, message, lambda amount: 0 < amount < quantities.MILLI, number=False)
    schema = _schema(f"self.matches({cel_text(quantities.FRACTION)})", message, number=False)
    return reader, PlainSerializer(format_gpus, return_type=str), WithJsonSchema(schema)


def _time(bounds: str, most: str, *, least: int = 1) -> Any:
    """Metadata of a time from `least` seconds, 0 or 1, to `most`, always a text. `bounds`: the same for the message."""
    longest = quantities.parse_duration(most)
    message = f'must be a time such as "90s", "15m" or "2h30m", {bounds}'
    rule = (
        f"size(self) > 0 && self.matches({cel_text(quantities.DURATION)})"
        + (" && duration(self) > duration('0s')" if least else "")
        + f" && duration(self) <= duration('{most}')"
    )
    reader = _reader(_TIME, message, lambda seconds: least <= seconds <= longest, number=False)
    schema = _schema(rule, message, number=False)
    return reader, PlainSerializer(format_duration, return_type=str), WithJsonSchema(schema)


LONGEST_GRACE_S = quantities.parse_duration("24h")

CpuAmount: TypeAlias = Annotated[int, *_decimal("1024", of="CPUs", show=quantities.show_cpu)]
"""Milli-CPU."""
GpuAmount: TypeAlias = Annotated[int, *_gpus(1_000_000)]
"""Milli-GPU."""
GpuHours: TypeAlias = Annotated[int, *_decimal("9000000", of="GPU-hours")]
"""Thousandths of a GPU-hour."""
Money: TypeAlias = Annotated[int, *_money("1000000000")]
"""Micro-units of a currency."""
HostMemory: TypeAlias = Annotated[int, *_memory("1Mi", "64Ti")]
"""Bytes."""
VolumeSize: TypeAlias = Annotated[int, *_memory("1Mi", "64Ti", listed=True)]
"""Bytes."""
DeviceMemory: TypeAlias = Annotated[int, *_memory("1Mi", "1Ti")]
"""Bytes of one GPU's memory."""
PooledMemory: TypeAlias = Annotated[int, *_memory("1Mi", "65536Ti", listed=True)]
"""Bytes of GPU memory, over many GPUs."""
Fraction: TypeAlias = Annotated[int, *_fraction()]
"""Thousandths of one GPU, 1 to 999."""
Duration: TypeAlias = Annotated[int, *_time("longer than 0s and at most 8760h (a year)", "8760h")]
"""Seconds, at least one."""
GracePeriod: TypeAlias = Annotated[
    int, *_time("longer than 0s and at most 24h (the administrator may allow less)", "24h")
]
"""Seconds, at least one: what a job may ask for; the cluster's own limit applies in addition."""
Delay: TypeAlias = Annotated[int, *_time('at most 8760h (a year), where "0s" is at once', "8760h", least=0)]
"""Seconds; 0 is allowed."""
