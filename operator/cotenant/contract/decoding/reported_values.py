"""Values that a program chose to report, as a status can hold them: numbers of 64 bits and plain text, by plain names.

A program is never failed for what it reports: what cannot be kept is left out or shown as text, and a note names its
key, so that its author finds it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from cotenant.contract.decoding.plain_text import plain_text, shown_value

Value: TypeAlias = int | float | str
COUNT_MAX: Final = 64
KEY_CHARS_MAX: Final = 120
TEXT_CHARS_MAX: Final = 1000
_WHOLE_BITS_MAX: Final = 63
"""With its sign, a number of JSON in Kubernetes has 64."""
_SHOWN_BITS_MAX: Final = 132
"""Whole numbers of more bits are not shown digit by digit."""


def plain_values(values: Mapping[Any, Any], where: str) -> tuple[dict[str, Value], list[str]]:
    """The first `COUNT_MAX` values that can be kept, and a note for each key that is not as it was reported."""
    kept: dict[str, Value] = {}
    notes: list[str] = []
    for name, given in islice(values.items(), COUNT_MAX):
        key = plain_text(_key(name), KEY_CHARS_MAX)
        value, note = plain_value(given)
        if key != _key(name):
            notes.append(f"{where}.{key}: this name is not the one that was reported, which cannot be shown")
        if note:
            notes.append(f"{where}.{key} {note}")
        if value is not None:
            kept[key] = value
    if len(values) > COUNT_MAX:
        notes.append(f"{where}: the first {COUNT_MAX} of {len(values)} are kept")
    return kept, notes


def plain_numbers(values: Mapping[Any, Any], where: str) -> tuple[dict[str, int | float], list[str]]:
    """The numbers of `plain_values`, and texts that are numbers. NaN and infinity stay: a loss may diverge."""
    kept, notes = plain_values({name: _as_float(given) for name, given in values.items()}, where)
    numbers = {key: _as_float(value) for key, value in kept.items()}
    left_out = [f"{where}.{key} was left out: a metric is a number" for key, each in numbers.items() if _is_text(each)]
    return (
        {key: each for key, each in numbers.items() if not _is_text(each)},
        [*left_out, *(note for note in notes if not note.endswith(_NOT_IN_JSON))],
    )


def finite_numbers(values: Mapping[Any, Any], where: str) -> tuple[dict[str, int | float], list[str]]:
    """Those of `plain_numbers` that are finite."""
    numbers, notes = plain_numbers(values, where)
    return {key: value for key, value in numbers.items() if math.isfinite(value)}, notes


_NOT_IN_JSON: Final = "is kept as text: JSON has no such number"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _as_float(value: Any) -> Any:
    """A text that is a number, and a whole number that a status cannot hold, as a float where there is one."""
    try:
        if isinstance(value, str) or (isinstance(value, int) and value.bit_length() > _WHOLE_BITS_MAX):
            return float(value)
    except (ValueError, OverflowError):
        pass
    return value


def _key(name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", errors="backslashreplace")
    return name if isinstance(name, str) else shown_value(name)


def plain_value(given: Any) -> tuple[Value | None, str]:
    """The value as it is kept, None where it cannot be; and what is to be said about it, empty where nothing is."""
    if isinstance(given, bool | int | float):
        return _number(given)
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if isinstance(given, bytes | bytearray):
        given = bytes(given[: 4 * (TEXT_CHARS_MAX + 1)]).decode("utf-8", errors="backslashreplace")
    elif not isinstance(given, str):
        return None, f"was left out: {shown_value(given)} is neither a number nor a text; json.dumps makes a text of it"
    text = plain_text(given, TEXT_CHARS_MAX)
    if text == given:
        return text, ""
    if len(given) > TEXT_CHARS_MAX:
        return text, f"was cut after {TEXT_CHARS_MAX} characters"
    return text, "has characters that cannot be shown; they are written as \\x1b is"


def _number(given: bool | int | float) -> tuple[Value | None, str]:
    if isinstance(given, bool):
        return int(given), ""
    if isinstance(given, int):
        bits = given.bit_length()
        if bits <= _WHOLE_BITS_MAX:
            return int(given), ""
        if bits <= _SHOWN_BITS_MAX:
            return str(int(given)), f"is kept as text: an integer of {bits} bits is more than the 64 of a number"
        return None, f"was left out: an integer of {bits} bits is more than the 64 of a number"
    return (float(given), "") if math.isfinite(given) else (str(float(given)), _NOT_IN_JSON)
