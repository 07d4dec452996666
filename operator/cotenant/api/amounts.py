"""The amounts of our documents: how each is read, printed and said in the CRD. Integers in base units past this door.

A type is an `Annotated` integer with three parts: a reader, a printer, and its schema with its one rule in CEL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic.config import JsonDict

from cotenant.api import quantities
from cotenant.api.fields import cel_text
from cotenant.api.quantities import QuantityError
from cotenant.api.rules import given


def _amount(
    parse: Callable[[Any], int],
    show: Callable[[int], str],
    *,
    grammar: str,
    low: str,
    high: str,
    message: str,
    low_included: bool,
) -> Any:
    """The metadata of an amount that may be a whole number or a text, within bounds."""
    least, most = parse(low), parse(high)

    def read(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"{message}; write it as a whole number or in quotes, not as {given(value)}")
        try:
            amount = parse(value)
        except QuantityError as error:
            raise ValueError(f"{message}; {error}") from None
        if not (least <= amount if low_included else least < amount) or amount > most:
            raise ValueError(f"{message}, not {given(value)}")
        return amount

    compare = ">= 0" if low_included else "> 0"
    rule = (
        f"string(self).matches({cel_text(grammar)}) && quantity(string(self)).compareTo(quantity('{low}')) {compare}"
        f" && quantity(string(self)).compareTo(quantity('{high}')) <= 0"
    )
    schema = {
        "x-kubernetes-int-or-string": True,
        "maxLength": 24,
        "x-kubernetes-validations": [{"rule": rule, "message": message}],
    }
    return BeforeValidator(read), PlainSerializer(show, return_type=str), WithJsonSchema(schema)


def _decimal(
    low: str,
    high: str,
    *,
    of: str,
    low_included: bool = False,
    show: Callable[[int], str] = quantities.show_decimal,
) -> Any:
    span = f"from {low} to {high}" if low_included else f"more than {low} and at most {high}"
    return _amount(
        quantities.parse_decimal,
        show,
        grammar=quantities.DECIMAL,
        low=low,
        high=high,
        message=f'must be a number of {of} {span}, such as 2, "0.5" or "500m", with at most three decimals',
        low_included=low_included,
    )


def _memory(low: str, high: str) -> Any:
    return _amount(
        quantities.parse_memory,
        quantities.show_memory,
        grammar=quantities.MEMORY,
        low=low,
        high=high,
        message=f'must be an amount of memory from {low} to {high}, such as "16Gi" or "512Mi"',
        low_included=True,
    )


def _text_amount(
    parse: Callable[[str], int],
    show: Callable[[int], str],
    *,
    rule: str,
    message: str,
    fits: Callable[[int], bool],
) -> Any:
    """The metadata of an amount that is always a text: a fraction or a duration."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"{message}; write it in quotes, not as {given(value)}")
        try:
            amount = parse(value)
        except QuantityError as error:
            raise ValueError(f"{message}; {error}") from None
        if not fits(amount):
            raise ValueError(f"{message}, not {given(value)}")
        return amount

    schema: JsonDict = {
        "type": "string",
        "maxLength": 24,
        "x-kubernetes-validations": [{"rule": rule, "message": message}],
    }
    return BeforeValidator(read), PlainSerializer(show, return_type=str), WithJsonSchema(schema)


LONGEST_S = quantities.parse_duration("8760h")
_DURATION = 'must be a time such as "90s", "15m" or "2h30m"'

CpuAmount: TypeAlias = Annotated[int, *_decimal("0", "1024", of="CPUs", show=quantities.show_cpu)]
"""Milli-CPU."""
GpuAmount: TypeAlias = Annotated[int, *_decimal("0", "1000000", of="GPUs", low_included=True)]
"""Milli-GPU."""
GpuHours: TypeAlias = Annotated[int, *_decimal("0", "9000000", of="GPU-hours")]
"""Thousandths of a GPU-hour."""
HostMemory: TypeAlias = Annotated[int, *_memory("1Mi", "64Ti")]
"""Bytes."""
DeviceMemory: TypeAlias = Annotated[int, *_memory("1Mi", "1Ti")]
"""Bytes of one GPU's memory."""
PooledMemory: TypeAlias = Annotated[int, *_memory("1Mi", "65536Ti")]
"""Bytes of GPU memory, over many GPUs."""
Fraction: TypeAlias = Annotated[
    int,
    *_text_amount(
        quantities.parse_fraction,
        quantities.show_decimal,
        rule=f"self.matches({cel_text(quantities.FRACTION)})",
        message='must be more than 0 and less than 1, in quotes, at most three decimals, such as "0.4";'
        " for whole GPUs use count",
        fits=lambda amount: 0 < amount < quantities.MILLI,
    ),
]
"""Thousandths of one GPU, 1 to 999."""
Duration: TypeAlias = Annotated[
    int,
    *_text_amount(
        quantities.parse_duration,
        quantities.show_duration,
        rule=f"size(self) > 0 && self.matches({cel_text(quantities.DURATION)}) && duration(self) > duration('0s')"
        " && duration(self) <= duration('8760h')",
        message=f"{_DURATION}, longer than 0s and at most 8760h (a year)",
        fits=lambda seconds: 0 < seconds <= LONGEST_S,
    ),
]
"""Seconds, at least one."""
Delay: TypeAlias = Annotated[
    int,
    *_text_amount(
        quantities.parse_duration,
        quantities.show_duration,
        rule=f"size(self) > 0 && self.matches({cel_text(quantities.DURATION)}) && duration(self) <= duration('8760h')",
        message=f'{_DURATION}, at most 8760h (a year); "0s" is at once',
        fits=lambda seconds: seconds <= LONGEST_S,
    ),
]
"""Seconds, none allowed."""
