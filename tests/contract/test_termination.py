"""What a pod leaves behind, whoever wrote it: as much of it as fits, and never an exception."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from cotenant.contract import Malformed, Termination
from tests.support.well_formed import well_formed

ENDED = {"node_rank": 0, "attempt": 1, "code": 1, "reason": "UserError"}


def read(**changes: Any) -> Termination:
    return well_formed(Termination.from_json(json.dumps(ENDED | changes)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("[" * 4090, "nests more than 4 deep"),
        ("", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("null", "is not an object"),
        ("[]", "is not an object"),
        ("x" * 4097, "is longer than 4096 bytes"),
        ('{"code": ' + "9" * 65 + "}", "holds a number of more than 64 digits"),
    ],
    ids=lambda value: value[:12],
)
def test_a_message_that_does_not_pass_has_a_reason(data: str, reason: str) -> None:
    assert Termination.from_json(data) == Malformed(reason)


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("code", 1.5, -1),
        ("code", 1 << 40, -1),
        ("reason", "\x1b[31m", "Error"),
        ("reason", ["a"], "Error"),
        ("rank", -1, None),
        ("signal", 10**30, None),
        ("pod", "0", None),
        ("step", 1e308, 0),
        ("tail", "text", ()),
        ("tail", [1], ()),
        ("results", [1], {}),
        ("results", {"a": [1]}, {}),
        ("message", {"a": 1}, ""),
    ],
    ids=ascii,
)
def test_a_field_that_does_not_fit_is_left_out_and_a_warning_names_it(field: str, value: Any, kept: Any) -> None:
    found = read(**{field: value})
    assert getattr(found, field) == kept
    assert len(found.warnings) == 1
    assert f"{field}" in found.warnings[0]


def test_texts_are_plain_and_a_message_may_have_lines() -> None:
    found = read(message="first\nsecond\x1b[2J", tail=["\u202eevil\n", "caf\udce9"])
    assert (found.message, found.tail) == ("first\nsecond\\x1b[2J", ("\\u202eevil ", "caf\\udce9"))


def test_results_are_kept_as_far_as_a_status_can_hold_them() -> None:
    found = read(results={"ok": 0.5, "file": "caf\udce9", "n": 2**70, "loss": math.nan, "deep": {"a": 1}})
    assert found.results == {"ok": 0.5, "file": "caf\\udce9", "n": "1180591620717411303424", "loss": "nan"}
    assert found.warnings == (
        "results.file has characters that cannot be shown; they are written as \\x1b is",
        "results.n is kept as text: an integer of 71 bits is more than the 64 of a number",
        "results.loss is kept as text: JSON has no such number",
        "results.deep was left out: an object is neither a number nor a text; json.dumps makes a text of it",
    )


def test_results_that_do_not_fit_are_left_out_from_the_last_and_a_warning_says_from_which_on() -> None:
    results = {f"metric_{number:03d}": number / 7 for number in range(60)} | {"log": "x" * 5000}
    written = Termination(0, 1, 0, "Completed", results=results, message="m" * 900, tail=("line",) * 50).to_json()
    found = well_formed(Termination.from_json(written))
    assert len(written) <= 4000
    assert (found.code, found.reason, found.message, found.tail) == (0, "Completed", "m" * 900, ())
    kept = list(found.results)
    assert kept == list(results)[: len(kept)]
    assert len(kept) > 40
    left_out = len(results) - len(kept)
    assert found.warnings == (
        f"results: {left_out} of 61 were left out, {list(results)[len(kept)]} first: a pod can leave 4096 bytes",
    )


@pytest.mark.parametrize("text", ["\U0001f600", "\x00", "\udce9", "ü", '"'], ids=ascii)
def test_the_longest_of_everything_fits_into_a_message(text: str) -> None:
    written = Termination(
        0, 1, 1, "UserError", message=text * 4000, results={text * 100 + str(n): text * 1000 for n in range(64)},
        tail=(text * 1000,) * 100, warnings=(text * 400,) * 16,
    ).to_json()  # fmt: skip
    assert len(written.encode()) <= 4000
    assert well_formed(Termination.from_json(written)).code == 1
