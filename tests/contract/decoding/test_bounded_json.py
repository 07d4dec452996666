"""JSON of a foreign process: a value, or why not. Never an exception, and never at more cost than was allowed."""

from __future__ import annotations

import base64
import math
import time
import tracemalloc
import zlib
from typing import Any

import pytest

from cotenant.contract.decoding.bounded_json import Bounds, Malformed, parse, unpack
from tests.support.well_formed import well_formed

BOUNDS = Bounds(bytes_max=1000, depth_max=3, values_max=20, digits_max=8)
LARGE = Bounds(bytes_max=1 << 20, depth_max=4, values_max=10_000)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ('{"a": [1, 2.5, null, true, "x"]}', {"a": [1, 2.5, None, True, "x"]}),
        (b'{"a": "\xc3\xbc"}', {"a": "ü"}),
        (b'{"a": "\xff"}', {"a": "\ufffd"}),
        (r'"[[[[ \" {{{{ 123456789012"', '[[[[ " {{{{ 123456789012'),
        ("-1234567", -1234567),
        ("[[[]]]", [[[]]]),
        (r'"\ud800"', "\ud800"),
    ],
    ids=ascii,
)
def test_what_is_within_the_bounds_is_read(data: str | bytes, value: Any) -> None:
    assert parse(data, BOUNDS) == value


def test_a_number_has_at_most_32_characters_where_nothing_else_is_said() -> None:
    assert parse("1" * 32, LARGE) == int("1" * 32)
    assert parse("1" * 33, LARGE) == Malformed("holds a number of more than 32 digits")


def test_a_value_that_is_no_object_and_no_list_nests_in_nothing() -> None:
    flat = Bounds(bytes_max=10, depth_max=0, values_max=10)
    assert (parse("1", flat), parse("[]", flat)) == (1, Malformed("nests more than 0 deep"))


def test_nan_and_infinity_are_floats() -> None:
    nan, infinity = well_formed(parse("[NaN, -Infinity]", BOUNDS))
    assert math.isnan(nan)
    assert infinity == -math.inf


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[[[[]]]]", "nests more than 3 deep"),
        ('{"a":' * 4, "nests more than 3 deep"),
        ("[[],[],[[[]]]]", "nests more than 3 deep"),
        ("[{},{},[[[]]]]", "nests more than 3 deep"),
        ("[" * 999, "holds more than 20 values"),
        ("123456789", "holds a number of more than 8 digits"),
        ("-1e-99999999", "holds a number of more than 8 digits"),
        ("[" + "1," * 20 + "1]", "holds more than 20 values"),
        (" " * 1001, "is longer than 1000 bytes"),
        ('"abc', "is not JSON: a text in it does not end"),
        ('"' + r"\"" * 300, "is not JSON: a text in it does not end"),
        ("{]", "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("\x1b", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[1] [2]", "is not JSON: Extra data: line 1 column 5 (char 4)"),
        ('"\x1b"', "is not JSON: Invalid control character at: line 1 column 2 (char 1)"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_what_is_not_has_a_reason(data: str, reason: str) -> None:
    assert parse(data, BOUNDS) == Malformed(reason)
    assert parse(data.encode(), BOUNDS) == Malformed(reason)


@pytest.mark.parametrize(
    "data",
    ["[" * LARGE.bytes_max, '"' + r"\"" * 500_000, "[]," * 349_000, "," * LARGE.bytes_max, "9" * LARGE.bytes_max,
     '{"":' * 250_000, "[" + "0," * 500_000, "\\" * LARGE.bytes_max, "-" * LARGE.bytes_max, '"' * LARGE.bytes_max],
    ids=lambda data: data[:8],
)  # fmt: skip
def test_the_worst_that_fits_into_the_bytes_costs_little(data: str) -> None:
    """CPU seconds of this process, with a wide margin; quadratic work would take minutes."""
    started = time.process_time()
    assert isinstance(parse(data, LARGE), Malformed)
    assert time.process_time() - started < 2.0


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def test_what_was_packed_is_unpacked() -> None:
    assert unpack(packed("größer".encode()), 100) == "größer"
    assert unpack(packed(b"x" * 100), 100) == "x" * 100


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (packed(b"x" * 101), "unpacks to more than 100 bytes"),
        (packed(b"x" * 50)[:8], "ends too early"),
        ("", "ends too early"),
        ("AAAA", "Error -3 while decompressing data: unknown compression method"),
        ("?", "Only base64 data is allowed"),
        ("é", "string argument should contain only ASCII characters"),
        (packed(b"\xff"), "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
    ids=ascii,
)
def test_what_cannot_be_unpacked_has_a_reason(text: str, reason: str) -> None:
    assert unpack(text, 100) == Malformed(reason)


def test_of_a_bomb_no_more_is_unpacked_than_was_allowed() -> None:
    bomb = packed(bytes(200 << 20))
    tracemalloc.start()
    assert unpack(bomb, 1 << 20) == Malformed(f"unpacks to more than {1 << 20} bytes")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
