"""What a program reports is kept as far as a status can hold it, and what cannot is named by its key."""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import Any

import pytest

from cotenant.contract.decoding.reported_values import finite_numbers, plain_numbers, plain_values


@pytest.mark.parametrize(
    ("value", "kept", "notes"),
    [
        (3, 3, []),
        (True, 1, []),
        (0.5, 0.5, []),
        ("a file", "a file", []),
        (2**63 - 1, 2**63 - 1, []),
        (2**63, "9223372036854775808", ["r.k is kept as text: an integer of 64 bits is more than the 64 of a number"]),
        (
            2**132 - 1,
            str(2**132 - 1),
            ["r.k is kept as text: an integer of 132 bits is more than the 64 of a number"],
        ),
        (2**132, None, ["r.k was left out: an integer of 133 bits is more than the 64 of a number"]),
        (10**5000, None, ["r.k was left out: an integer of 16610 bits is more than the 64 of a number"]),
        (math.nan, "nan", ["r.k is kept as text: JSON has no such number"]),
        (-math.inf, "-inf", ["r.k is kept as text: JSON has no such number"]),
        (PurePosixPath("/a/b"), "/a/b", []),
        (b"caf\xe9", "caf\\xe9", []),
        ("caf\udce9", "caf\\udce9", ["r.k has characters that cannot be shown; they are written as \\x1b is"]),
        ("x" * 1000, "x" * 1000, []),
        ("x" * 1001, "x" * 999 + "…", ["r.k was cut after 1000 characters"]),
        (b"x" * 1001, "x" * 999 + "…", ["r.k was cut after 1000 characters"]),
        ("👍".encode() * 1000, "👍" * 1000, []),
        ("👍".encode() * 1001, "👍" * 999 + "…", ["r.k was cut after 1000 characters"]),
        (
            "\x1b" + "x" * 999,
            "\\x1b" + "x" * 995 + "…",
            ["r.k has characters that cannot be shown; they are written as \\x1b is"],
        ),
        (
            [1],
            None,
            ["r.k was left out: a list is neither a number nor a text; json.dumps makes a text of it"],
        ),
        (
            None,
            None,
            ["r.k was left out: null is neither a number nor a text; json.dumps makes a text of it"],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_kept_as_well_as_it_can_be(value: Any, kept: Any, notes: list[str]) -> None:
    assert plain_values({"k": value}, "r") == ({} if kept is None else {"k": kept}, notes)


def test_names_are_plain_and_a_note_has_those_that_were_not() -> None:
    found, notes = plain_values({"a\x1b": 1, 7: 2, "b" * 200: 3, (1,): 4}, "r")
    assert found == {"a\\x1b": 1, "7": 2, "b" * 119 + "…": 3, "a list": 4}
    assert notes == [
        f"r.{name}: this name is not the one that was reported, which cannot be shown"
        for name in ("a\\x1b", "b" * 119 + "…")
    ]


def test_the_first_values_are_kept_of_too_many() -> None:
    found, notes = plain_values({f"k{n}": n for n in range(1000)}, "r")
    assert found == {f"k{n}": n for n in range(64)}
    assert notes == ["r: the first 64 of 1000 are kept"]


def test_metrics_are_numbers_and_a_loss_may_diverge() -> None:
    found, notes = plain_numbers({"loss": math.inf, "text": "1.5", "name": "resnet", "n": 3}, "m")
    assert found == {"loss": math.inf, "text": 1.5, "n": 3}
    assert notes == ["m.name was left out: a metric is a number"]
    assert finite_numbers({"loss": math.inf, "n": 3}, "m") == ({"n": 3}, [])


def test_a_whole_number_stays_whole_up_to_what_a_status_can_hold() -> None:
    found, notes = plain_numbers({"tokens": 2**63 - 1, "seed": 2**63}, "m")
    assert (found, notes) == ({"tokens": 2**63 - 1, "seed": 2.0**63}, [])
    assert [type(value) for value in found.values()] == [int, float]
