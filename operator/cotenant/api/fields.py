"""The scalar types of our documents: how each is read, printed and said in the CRD. Fields are made of these.

A type is an `Annotated` value with four parts: a reader (text → integer or checked text), a printer, its schema, and
its one rule in CEL. Nothing is coerced: "2" is not a whole number and 2 is not a text, exactly as in the API server.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict, StringConstraints, WithJsonSchema
from pydantic.config import JsonDict

from cotenant.api import quantities
from cotenant.api.quantities import QuantityError
from cotenant.api.rules import broken, given

Str: TypeAlias = Annotated[str, Strict()]
Int: TypeAlias = Annotated[int, Strict()]


def whole(least: int, most: int) -> Any:
    """The metadata of a whole number within bounds."""
    return Strict(), Field(ge=least, le=most)


Bool: TypeAlias = Annotated[bool, Strict()]

_Value = TypeVar("_Value", str, int)


def text(grammar: str, message: str, *, longest: int) -> Any:
    """The metadata of a string that must match `grammar` (RE2, anchored) and is refused with `message`."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and (len(value) > longest or re.fullmatch(grammar, value) is None):
            raise ValueError(f"{message}, not {given(value)}")
        return value

    return BeforeValidator(check), WithJsonSchema(
        {
            "type": "string",
            "maxLength": longest,
            "x-kubernetes-validations": [{"rule": f"self.matches({cel_text(grammar)})", "message": message}],
        }
    )


def cel_text(value: str) -> str:
    """A raw CEL string: what a regular expression is written in."""
    return f"r'{value}'"


def _amount(
    parse: Callable[[Any], int], *, grammar: str, low: str, high: str, message: str, low_included: bool
) -> tuple[BeforeValidator, dict[str, Any]]:
    """Reader and schema of an amount that may be a whole number or a text, within bounds."""
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
    return BeforeValidator(read), schema


def _decimal(low: str, high: str, *, of: str, low_included: bool = False) -> Any:
    span = f"from {low} to {high}" if low_included else f"more than {low} and at most {high}"
    read, schema = _amount(
        quantities.parse_decimal,
        grammar=quantities.DECIMAL,
        low=low,
        high=high,
        message=f'must be a number of {of} {span}, such as 2, "0.5" or "500m", with at most three decimals',
        low_included=low_included,
    )
    return read, schema


def _memory(low: str, high: str) -> tuple[BeforeValidator, dict[str, Any]]:
    return _amount(
        quantities.parse_memory,
        grammar=quantities.MEMORY,
        low=low,
        high=high,
        message=f'must be an amount of memory from {low} to {high}, such as "16Gi" or "512Mi"',
        low_included=True,
    )


def _text_amount(parse: Callable[[str], int], rule: str, message: str, *, fits: Callable[[int], bool]) -> Any:
    """Reader and schema of an amount that is always a text: a fraction or a duration."""

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

    return BeforeValidator(read), {
        "type": "string",
        "maxLength": 24,
        "x-kubernetes-validations": [{"rule": rule, "message": message}],
    }


LONGEST_S = quantities.parse_duration("8760h")

_cpu, _cpu_schema = _decimal("0", "1024", of="CPUs")
_gpus, _gpus_schema = _decimal("0", "1000000", of="GPUs", low_included=True)
_hours, _hours_schema = _decimal("0", "9000000", of="GPU-hours")
_host, _host_schema = _memory("1Mi", "64Ti")
_device, _device_schema = _memory("1Mi", "1Ti")
_pooled, _pooled_schema = _memory("1Mi", "65536Ti")
_fraction, _fraction_schema = _text_amount(
    quantities.parse_fraction,
    f"self.matches({cel_text(quantities.FRACTION)})",
    'must be more than 0 and less than 1, in quotes, at most three decimals, such as "0.4"; for whole GPUs use count',
    fits=lambda amount: 0 < amount < quantities.MILLI,
)
_DURATION_MESSAGE = 'must be a time such as "90s", "15m" or "2h30m"'
_duration, _duration_schema = _text_amount(
    quantities.parse_duration,
    f"size(self) > 0 && self.matches({cel_text(quantities.DURATION)}) && duration(self) > duration('0s')"
    " && duration(self) <= duration('8760h')",
    f"{_DURATION_MESSAGE}, longer than 0s and at most 8760h (a year)",
    fits=lambda seconds: 0 < seconds <= LONGEST_S,
)
_delay, _delay_schema = _text_amount(
    quantities.parse_duration,
    f"size(self) > 0 && self.matches({cel_text(quantities.DURATION)}) && duration(self) <= duration('8760h')",
    f'{_DURATION_MESSAGE}, at most 8760h (a year); "0s" is at once',
    fits=lambda seconds: seconds <= LONGEST_S,
)

CpuAmount: TypeAlias = Annotated[
    int, _cpu, PlainSerializer(quantities.show_cpu, return_type=str), WithJsonSchema(_cpu_schema)
]
"""Milli-CPU."""
GpuAmount: TypeAlias = Annotated[
    int, _gpus, PlainSerializer(quantities.show_decimal, return_type=str), WithJsonSchema(_gpus_schema)
]
"""Milli-GPU."""
GpuHours: TypeAlias = Annotated[
    int, _hours, PlainSerializer(quantities.show_decimal, return_type=str), WithJsonSchema(_hours_schema)
]
"""Thousandths of a GPU-hour."""
HostMemory: TypeAlias = Annotated[
    int, _host, PlainSerializer(quantities.show_memory, return_type=str), WithJsonSchema(_host_schema)
]
"""Bytes."""
DeviceMemory: TypeAlias = Annotated[
    int, _device, PlainSerializer(quantities.show_memory, return_type=str), WithJsonSchema(_device_schema)
]
"""Bytes of one GPU's memory."""
PooledMemory: TypeAlias = Annotated[
    int, _pooled, PlainSerializer(quantities.show_memory, return_type=str), WithJsonSchema(_pooled_schema)
]
"""Bytes of GPU memory, over many GPUs."""
Fraction: TypeAlias = Annotated[
    int, _fraction, PlainSerializer(quantities.show_decimal, return_type=str), WithJsonSchema(_fraction_schema)
]
"""Thousandths of one GPU, 1 to 999."""
Duration: TypeAlias = Annotated[
    int, _duration, PlainSerializer(quantities.show_duration, return_type=str), WithJsonSchema(_duration_schema)
]
"""Seconds, at least one."""
Delay: TypeAlias = Annotated[
    int, _delay, PlainSerializer(quantities.show_duration, return_type=str), WithJsonSchema(_delay_schema)
]
"""Seconds, none allowed."""

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_VALUE = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"

Label: TypeAlias = Annotated[
    Str,
    *text(DNS_LABEL, "must be a name of at most 63 lower-case letters, digits and '-', such as \"team-a\"", longest=63),
]
"""The name of a Queue or a namespace."""
ObjectName: TypeAlias = Annotated[
    Str,
    *text(SUBDOMAIN, "must be the name of an object: lower-case letters, digits, '-' and '.'", longest=253),
]
"""The name of an object of another kind in the job's namespace."""
LabelValue: TypeAlias = Annotated[
    Str,
    *text(LABEL_VALUE, "must be a label value: letters, digits, '-', '_' and '.', at most 63", longest=63),
]
"""A GPU class, a zone, a rack: what can stand in a node's label."""


def bounded(longest: int, *, shortest: int = 0) -> Any:
    """A string without a grammar, with a longest length."""
    return StringConstraints(strict=True, max_length=longest, min_length=shortest)


def keyed_by(key: str) -> Any:
    """A list whose items have distinct keys, which the API server checks and merges by."""

    def distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
        values = [getattr(item, key) for item in items]
        twice = [index for index, value in enumerate(values) if value in values[:index]]
        if twice:
            raise broken([(f"[{index}]", f"the {key} {values[index]!r} appears twice") for index in twice])
        return items

    extra: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return AfterValidator(distinct), Field(json_schema_extra=extra)


def _read_time(value: Any) -> Any:
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    return value


def _show_time(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Timestamp: TypeAlias = Annotated[
    datetime,
    BeforeValidator(_read_time),
    PlainSerializer(_show_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment. Built from Unix seconds or RFC 3339; written as Kubernetes writes it, to the second, in UTC."""
