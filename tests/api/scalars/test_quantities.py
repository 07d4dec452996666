"""Amounts are read exactly, printed as people write them, and refused when they are not what they seem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cotenant.api.scalars.quantities import (
    QuantityError,
    mib_up,
    parse_decimal,
    parse_duration,
    parse_fraction,
    parse_gpus,
    parse_kubernetes,
    parse_memory,
    show_cpu,
    show_memory,
)
from cotenant.core.model.formatting import format_duration, format_gpus


def shown(value: object) -> str:
    return str(getattr(value, "__name__", value))


READ: list[tuple[Callable[[Any], int], str | int, int]] = [
    (parse_decimal, "8", 8000),
    (parse_decimal, 8, 8000),
    (parse_decimal, "500m", 500),
    (parse_decimal, "0.4", 400),
    (parse_decimal, "0.125", 125),
    (parse_decimal, "1.50", 1500),
    (parse_decimal, "0", 0),
    (parse_gpus, 8, 8000),
    (parse_gpus, "0.4", 400),
    (parse_memory, "16Gi", 17179869184),
    (parse_memory, "1.5Gi", 1610612736),
    (parse_memory, "16G", 16000000000),
    (parse_memory, "512", 512),
    (parse_memory, "1.001", 2),
    (parse_fraction, "0.4", 400),
    (parse_fraction, "0.400", 400),
    (parse_fraction, "0.001", 1),
    (parse_fraction, "0.999", 999),
    (parse_duration, "90s", 90),
    (parse_duration, "2h30m", 9000),
    (parse_duration, "1h2m3s", 3723),
    (parse_duration, "0s", 0),
]


@pytest.mark.parametrize(("parse", "text", "amount"), READ, ids=shown)
def test_an_amount_becomes_an_integer(parse: Callable[[Any], int], text: str | int, amount: int) -> None:
    assert parse(text) == amount


REFUSED: list[tuple[Callable[[Any], int], str | int, str]] = [
    (parse_decimal, "NaN", "'NaN' is not a number"),
    (parse_decimal, "inf", "'inf' is not a number"),
    (parse_decimal, -1, "'-1' is negative"),
    (parse_decimal, "1e3", "'1e3' has an exponent; write the number out"),
    (parse_decimal, "0.1234", "'0.1234' has more than three decimals"),
    (parse_decimal, 2**70, "'1180591620717411303424' is too large"),
    (parse_decimal, "1.5m", "'1.5m' is not well formed"),
    (parse_decimal, "1\n", "'1\\n' is not well formed"),
    (parse_decimal, "٣", "'٣' is not well formed"),
    (parse_gpus, "500m", "'500m' has a unit; write '0.5'"),
    (parse_gpus, "1.5m", "'1.5m' is not well formed"),
    (parse_memory, "-16Gi", "'-16Gi' is negative"),
    (parse_memory, "1e400", "'1e400' has an exponent; write the number out"),
    (parse_memory, "16GB", "'16GB' is not well formed"),
    (parse_fraction, "0.0", "'0.0' asks for nothing"),
    (parse_fraction, "1", "'1' is not below 1"),
    (parse_fraction, "0.0001", "'0.0001' has more than three decimals"),
    (parse_duration, "90", "'90' has no unit"),
    (parse_duration, "", '\'\' has no unit; write for example "90s", "15m" or "2h30m"'),
    (parse_duration, "30m2h", "'30m2h' is not well formed"),
]


@pytest.mark.parametrize(("parse", "text", "message"), REFUSED, ids=shown)
def test_what_is_no_amount_is_refused_with_the_mistake(
    parse: Callable[[Any], int], text: str | int, message: str
) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse(text)
    assert str(refusal.value) == message


@given(some.integers(0, 10**9))
def test_what_is_printed_reads_as_the_same(amount: int) -> None:
    assert parse_decimal(format_gpus(amount)) == amount
    assert parse_decimal(show_cpu(amount)) == amount
    assert parse_memory(show_memory(amount)) == amount


@given(some.integers(0, 8760 * 3600))
def test_a_time_that_is_printed_reads_as_the_same(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "scale", "amount"),
    [
        ("65879884Ki", 1, 65879884 * 1024),
        ("3920m", 1000, 3920),
        ("4", 1000, 4000),
        ("0.1", 1000, 100),
        ("1e3", 1, 1000),
        ("1E", 1, 10**18),
        ("100u", 1000, 1),
        ("1500000n", 1000, 2),
        (12, 1, 12),
        ("+5", 1, 5),
        (".5", 1000, 500),
        ("5.", 1, 5),
        ("1200e-3", 1000, 1200),
        ("100E-3", 1, 1),
        ("1e-9", 1000, 1),
        ("0e-9", 1000, 0),
        ("10e18", 1, 2**63 - 1),
        ("1e999999999999999999", 1000, 2**63 - 1),
        ("1e-999999999999999999", 1000, 1),
        ("9" * 10_000, 1, 2**63 - 1),
        ("0." + "0" * 10_000 + "1", 1, 1),
        ("9223372036854775807", 1000, 2**63 - 1),
        ("9223372036854775807", 1, 2**63 - 1),
        ("123456789.000000001Gi", 1, 123456789 * 2**30 + 2),
    ],
)
def test_what_kubernetes_writes_is_read_and_rounded_up(text: str | int, scale: int, amount: int) -> None:
    assert parse_kubernetes(text, scale) == amount


@pytest.mark.parametrize(
    "text", ["", "Gi", "1Zi", "-1", "1 Gi", ".", "+", "1e", "1e-", "1e3Ki", "1e3.5", "NaN", "Infinity", "1_000"]
)
def test_what_kubernetes_would_never_write_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_kubernetes(text)


def test_a_request_is_never_rounded_down() -> None:
    assert [mib_up(0), mib_up(1), mib_up(2**20), mib_up(2**20 + 1)] == [0, 1, 1, 2]
