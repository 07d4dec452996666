"""Amounts as other systems and people write them ("16 GB", 3600, "PT1H", "50%") → the form used here.

A respelling is a suggestion: its meaning is a guess, so no value is ever read through it. None means that it is unclear
what was meant.
"""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from typing import Any, Final

from cotenant.api.scalars import quantities
from cotenant.core.model.formatting import format_duration, format_gpus

_NUMBER: Final = r"[0-9]{1,12}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}"
_SPAN: Final = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)[\s,]*")
_SECONDS: Final = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hr": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
    "w": 7 * 86400,
    "week": 7 * 86400,
}
_ISO: Final = re.compile(r"P(?:([0-9]{1,4})D)?(?:T(?:([0-9]{1,6})H)?(?:([0-9]{1,7})M)?(?:([0-9]{1,8})S)?)?")
_CLOCK: Final = re.compile(r"(?:([0-9]{1,3})-)?([0-9]{1,4}):([0-9]{2}):([0-9]{2})")
_MEMORY: Final = re.compile(rf"({_NUMBER})\s*([kmgt]?)(i?)(b?|bytes?)", re.IGNORECASE)
_COUNTED: Final = re.compile(rf"\+?({_NUMBER})\s*(?:v?cpus?|cores?|gpus?|gpu-?hours?|hours?|h)?", re.IGNORECASE)
_SMALL: Final = 4096
"""A bare number of memory up to this is probably in gibibytes, above it in mebibytes."""
_THOUSANDTH: Final = Decimal("0.001")
"""The smallest amount."""


def duration(value: Any) -> str | None:
    """3600, "1 day", "1.5h", "PT1H", "01:00:00" → "1h" …; a bare number is seconds."""
    seconds = _seconds(value)
    return format_duration(seconds) if seconds is not None and seconds > 0 else None


def memory(value: Any) -> str | None:
    """16, "16GB", "16 GiB", "16g" → "16Gi" or "16G"; a bare number is gibibytes, a large one mebibytes or bytes."""
    number = _number(value)
    if number is not None:
        if number >= quantities.MIB:
            return quantities.show_memory(int(number))
        return f"{_shown(number)}{'Gi' if number <= _SMALL else 'Mi'}" if number >= _THOUSANDTH else None
    found = _MEMORY.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not found[2]:
        return None
    # Docker's "16g" is binary, "16GB" is decimal, as the letters say.
    binary = found[3] or (found[2].islower() and not found[4])
    unit = f"{found[2].upper()}i" if binary else found[2].upper().replace("K", "k")
    return f"{_shown(Decimal(found[1]))}{unit}"


def fraction(value: Any) -> str | None:
    """0.4, ".4", "40%", 40, "400m", "2/5" → "0.4"; None for what is no part of one."""
    part = _part(value)
    shown = _shown(part) if part is not None else None
    return shown if shown is not None and re.fullmatch(quantities.FRACTION, shown) else None


def decimal(value: Any) -> str | int | None:
    """0.5, "4 cores", "2 GPUs", "500m" → "0.5", 4, 2, "0.5": CPUs, GPUs and GPU-hours."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}m", value):
        return format_gpus(int(value[:-1]))
    number = _number(value)
    if number is None and isinstance(value, str) and (found := _COUNTED.fullmatch(value.strip())):
        number = Decimal(found[1])
    if number is None or number < _THOUSANDTH:
        return None
    shown = _shown(number)
    return int(shown) if shown.isdigit() else shown


def _seconds(value: Any) -> int | None:
    number = _number(value)
    if number is not None:
        return int(number)
    if not isinstance(value, str) or len(value) > 40:
        return None
    text = value.strip()
    if (found := _ISO.fullmatch(text)) or (found := _CLOCK.fullmatch(text)):
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    total, at, text = Decimal(0), 0, text.lower()
    while span := _SPAN.match(text, at):
        unit = _SECONDS.get(span[2]) or _SECONDS.get(span[2].removesuffix("s") if len(span[2]) > 2 else "")
        if unit is None:
            return None
        total, at = total + Decimal(span[1]) * unit, span.end()
    return int(total) if at and at == len(text) else None


def _part(value: Any) -> Decimal | None:
    text = value.strip().replace(",", ".") if isinstance(value, str) else ""
    if text.endswith("%") and (number := _number(text[:-1].strip())) is not None:
        return number / 100
    if re.fullmatch(r"[0-9]{1,3}m", text):
        return Decimal(text[:-1]) / 1000
    if re.fullmatch(r"[1-9][0-9]{0,2}/[1-9][0-9]{0,2}", text):
        above, below = text.split("/")
        return Decimal(above) / Decimal(below)
    number = _number(text or value)
    return number / 100 if number is not None and number > 1 and number == int(number) else number


def _number(value: Any) -> Decimal | None:
    """Finite number of a sane size, written as one or as the text of one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if (isinstance(value, int) and value.bit_length() > 128) or (isinstance(value, str) and len(value) > 40):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and -(10**15) < number < 10**15 else None


def _shown(number: Decimal) -> str:
    """Number with at most three decimals, rounded down as the SDK does, without zeros at the end."""
    text = f"{number.quantize(_THOUSANDTH, ROUND_DOWN):f}"
    return text.rstrip("0").rstrip(".")
