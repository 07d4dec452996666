"""Fields of a foreign object: what does not fit is left out and noted, the others are read."""

from __future__ import annotations

import math

import pytest

from cotenant.contract.decoding.fields import INTEGER_MAX, Fields


def fields(**raw: object) -> Fields:
    return Fields(raw, "it")


@pytest.mark.parametrize(
    ("value", "read", "note"),
    [
        (7, 7, []),
        (0, 0, []),
        (INTEGER_MAX, INTEGER_MAX, []),
        (None, None, []),
        (1.5, None, ["it.a was left out: 1.5 is not a whole number from 0 to 9007199254740991"]),
        (-1, None, ["it.a was left out: -1 is not a whole number from 0 to 9007199254740991"]),
        (True, None, ["it.a was left out: true is not a whole number from 0 to 9007199254740991"]),
        ("7", None, ['it.a was left out: "7" is not a whole number from 0 to 9007199254740991']),
        (1 << 70, None, ["it.a was left out: an integer of 71 bits is not a whole number from 0 to 9007199254740991"]),
    ],
    ids=ascii,
)
def test_a_whole_number_is_in_its_range(value: object, read: int | None, note: list[str]) -> None:
    found = fields(a=value)
    assert (found.whole_or_none("a"), found.notes) == (read, note)
    assert fields(a=value).whole("a", 3) == (3 if read is None else read)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (2.5, 2.5),
        (3, 3.0),
        (10, 10.0),
        (None, 0.0),
        (math.nan, 0.0),
        (math.inf, 0.0),
        (-1, 0.0),
        (11, 0.0),
        (10**400, 0.0),
        ([], 0.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_number_is_finite_and_in_its_range(value: object, read: float) -> None:
    found = fields(a=value)
    assert found.number("a", 10) == read
    assert len(found.notes) == (read == 0.0 and value is not None)


@pytest.mark.parametrize(("chars", "shown"), [(64, "n" * 64), (65, "n" * 63 + "…")])
def test_the_name_of_a_field_is_shown_up_to_64_characters(chars: int, shown: str) -> None:
    found = fields(**{"n" * chars: 1.5})
    found.whole_or_none("n" * chars, 7)
    assert found.notes == [f"it.{shown} was left out: 1.5 is not a whole number from 0 to 7"]


def test_texts_are_plain_and_words_are_words() -> None:
    found = fields(a="x\x1b\ny", b="x\ny", c=1, d="Error", e="no word", f="")
    assert (found.text("a", 10), found.text("b", 10, lines=True), found.text("c", 10)) == ("x\\x1b y", "x\ny", "")
    assert (found.word("d", "z"), found.word("e", "z"), found.word("f", "z")) == ("Error", "z", "z")
    assert found.notes == [
        "it.c was left out: 1 is not a text",
        'it.e was left out: "no word" is not one word of at most 64 letters and digits',
    ]


def test_of_a_list_of_texts_the_last_are_kept() -> None:
    found = fields(a=["1", "2", "3\x1b"], b="no list", c=["1", 2])
    assert (found.texts("a", 2, 10), found.texts("b", 2, 10), found.texts("c", 2, 10)) == (("2", "3\\x1b"), (), ())
    assert found.notes == [
        'it.b was left out: "no list" is not a list of texts',
        "it.c was left out: a list is not a list of texts",
    ]


def test_entries_are_those_of_an_object() -> None:
    found = fields(a={"x": 1}, b=[1])
    assert (list(found.entries("a")), list(found.entries("b")), list(found.entries("c"))) == ([("x", 1)], [], [])
    assert found.notes == ["it.b was left out: a list is not an object"]


def test_notes_are_few_and_short() -> None:
    found = fields()
    found.remarks("x" * 1000 for _ in range(100))
    assert [len(note) for note in found.notes] == [400] * 8
