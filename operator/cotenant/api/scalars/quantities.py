"""Amounts as people write them ("8", "500m", "16Gi", "0.4", "2h30m") ⇄ integers. Exact: no float is used.

The grammar of each amount is one regular expression (`DECIMAL`, `MEMORY`, …), which the CRD's CEL rules use too, so the
API server and this parser agree. NaN, negative numbers, exponents and too many decimals are refused.

The one-file plugin reads amounts without any package, so no other room is imported.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from typing import Final

MILLI: Final = 1000
MICRO: Final = 1_000_000
MIB: Final = 1024 * 1024

# At most three decimals: the smallest amount is one thousandth.
DECIMAL: Final = r"^((0|[1-9][0-9]{0,6})(\.[0-9]{1,3})?|(0|[1-9][0-9]{0,9})m)$"
GPUS: Final = r"^(0|[1-9][0-9]{0,6})(\.[0-9]{1,3})?$"
MEMORY: Final = r"^(0|[1-9][0-9]{0,14})(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)?$"
MONEY: Final = r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?$"
FRACTION: Final = r"^0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9])$"
DURATION: Final = r"^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,8}s)?$"

_UNITS: Final = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}
_DIGITS: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?([A-Za-z]*)")
_DURATION: Final = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?")
_KUBERNETES: Final = re.compile(
    r"(\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,18}(?![a-zA-Z]))?)([a-zA-Z]{0,2})"
)
_KUBERNETES_UNITS: Final = {unit: Decimal(amount) for unit, amount in _UNITS.items()} | {
    "m": Decimal("1e-3"),
    "u": Decimal("1e-6"),
    "n": Decimal("1e-9"),
}
_UPWARDS: Final = Context(prec=40, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
KUBERNETES_MOST: Final = 2**63 - 1
"""A larger amount counts as this one: the API server keeps any number of digits."""


class QuantityError(ValueError):
    """Text that is no amount of its kind; the message has the text and what is wrong with it."""


def parse_decimal(value: str | int) -> int:
    """Thousandths: "0.4" → 400, "500m" → 500, 2 → 2000. For CPUs and GPU-hours."""
    text = _well_formed(value, DECIMAL)
    return int(text[:-1]) if text.endswith("m") else _thousandths(text)


def parse_gpus(value: str | int) -> int:
    """Thousandths: "0.4" → 400, 2 → 2000. GPUs have no unit."""
    return _thousandths(_well_formed(value, GPUS))


def parse_money(value: str | int) -> int:
    """Micro-units of a currency: "2.50" → 2500000. No currency has finer prices."""
    whole, _, decimals = _well_formed(value, MONEY).partition(".")
    return int(whole) * MICRO + int(decimals.ljust(6, "0"))


def _thousandths(text: str) -> int:
    whole, _, decimals = text.partition(".")
    return int(whole) * MILLI + int(decimals.ljust(3, "0"))


def parse_memory(value: str | int) -> int:
    """Bytes, rounded up to a whole one: "16Gi" → 17179869184, "1.5G" → 1500000000."""
    match = _DIGITS.fullmatch(_well_formed(value, MEMORY))
    assert match is not None
    whole, decimals, unit = match.groups()
    return -(-_thousandths(f"{whole}.{decimals or ''}") * _UNITS[unit] // MILLI)


def parse_fraction(value: str) -> int:
    """Thousandths of one GPU, more than 0 and less than 1000: "0.4" → 400."""
    return int(_well_formed(value, FRACTION)[2:].ljust(3, "0"))


def parse_duration(value: str) -> int:
    """Seconds: "90s" → 90, "2h30m" → 9000."""
    match = _DURATION.fullmatch(_well_formed(value, DURATION))
    if match is None or not value:
        raise QuantityError(f'{value!r} has no unit; write for example "90s", "15m" or "2h30m"')
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def parse_kubernetes(value: str | int, scale: int = 1) -> int:
    """Quantity as the API server stores it, such as a request or a node's allocatable, rounded up: `5`, `+5`, `1500m`,
    `1200e-3`, `65879884Ki`.

    With `scale=1000` the result is in thousandths. At most `KUBERNETES_MOST`.
    """
    match = _KUBERNETES.fullmatch(str(value))
    if match is None:
        raise QuantityError(f"{str(value)[:60]!r} is not a Kubernetes quantity")
    number, unit = match.groups()
    if unit not in _KUBERNETES_UNITS:
        raise QuantityError(f"{str(value)[:60]!r} has the unknown unit {unit!r}")
    amount = _UPWARDS.multiply(
        _UPWARDS.create_decimal(number), _UPWARDS.multiply(_KUBERNETES_UNITS[unit], Decimal(scale))
    )
    return int(min(amount.to_integral_value(ROUND_CEILING, _UPWARDS), Decimal(KUBERNETES_MOST)))


def amount_or_0(value: str | int, scale: int = 1) -> int:
    """The quantity as `parse_kubernetes` reads it; 0 if it cannot."""
    try:
        return parse_kubernetes(value, scale)
    except QuantityError:
        return 0


def mib_up(size: int) -> int:
    """Bytes → MiB, rounded up, so that a request gets at least what it asked for."""
    return -(-size // MIB)


def mib_down(size: int) -> int:
    """Bytes → MiB, rounded down, so that a limit allows at most what was written."""
    return size // MIB


def show_cpu(milli: int) -> str:
    """CPUs as Kubernetes writes them: 500 → "500m", 2000 → "2"."""
    return f"{milli}m" if milli % MILLI else str(milli // MILLI)


def show_memory(size: int) -> str:
    """Text in the largest binary unit that is exact: 17179869184 → "16Gi"."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def show_mib(mib: int) -> str:
    return show_memory(mib * MIB)


def _well_formed(value: str | int, grammar: str) -> str:
    """Text that fits the grammar. Raises a QuantityError that names the mistake."""
    text = str(value)
    # fullmatch, because `$` alone would let a trailing newline pass, which RE2 in the API server does not.
    if re.fullmatch(grammar, text):
        return text
    raise QuantityError(f"{text[:60]!r} {_mistake(text, grammar)}")


def _mistake(text: str, grammar: str) -> str:
    if text.lstrip("+-").lower() in {"nan", "inf", "infinity", ".nan", ".inf"}:
        return "is not a number"
    if text.startswith("-"):
        return "is negative"
    if re.fullmatch(r"[0-9.]+[eE][-+]?[0-9]+", text):
        return "has an exponent; write the number out"
    if re.fullmatch(r"[0-9]+\.[0-9]{4,}[a-zA-Z]*", text):
        return "has more than three decimals"
    if re.fullmatch(r"[0-9]{8,}[0-9.]*[a-zA-Z]*", text):
        return "is too large"
    if grammar == FRACTION and re.fullmatch(r"0+(\.0*)?", text):
        return "asks for nothing"
    if grammar == FRACTION and re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
        return "is not below 1"
    if grammar == GPUS and re.fullmatch(r"[0-9]+m", text):
        return f"has a unit; write {str(Decimal(text[:-1]) / MILLI)!r}"
    if grammar == DURATION and text.isdigit():
        return "has no unit"
    return "is not well formed"
