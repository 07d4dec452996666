"""Foreign text, as a terminal, a log and etcd can take it."""

from __future__ import annotations

import pytest

from cotenant.contract.decoding.plain_text import is_printable_ascii, is_word, plain_text, shown_value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("step 7 of 9", "step 7 of 9"),
        ("Größe 大小 👍", "Größe 大小 👍"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\x00b\x07\x7f\x9b", "a\\x00b\\x07\\x7f\\x9b"),
        ("user\u202egnp.exe\u2066", "user\\u202egnp.exe\\u2066"),
        ("ad\u200bmin\ufeff\u2060\u200d", "ad\\u200bmin\\ufeff\\u2060\\u200d"),
        ("caf\udce9 \ud800", "caf\\udce9 \\ud800"),
        ("\u3164\u2800\u115f\U000e0100\ufe00", "\\u3164\\u2800\\u115f\\U000e0100\\ufe00"),
        ("\ue000\U0010ffff", "\\ue000\\U0010ffff"),
        ("a\u2028b\u2029c\u0085d", "a b c\\x85d"),
        ("tab\there\u00a0and\u3000there\r", "tab here and there "),
        ("one\ntwo", "one two"),
        ("back\\slash", "back\\slash"),
    ],
    ids=ascii,
)
def test_what_a_reader_would_not_see_as_it_is_is_written_out(text: str, shown: str) -> None:
    assert plain_text(text, 100) == shown
    assert plain_text(shown, 100) == shown


def test_the_ends_of_lines_stay_where_lines_are_wanted() -> None:
    assert plain_text("one\ntwo\r\nthree\x1b", 100, lines=True) == "one\ntwo \nthree\\x1b"


@pytest.mark.parametrize(
    ("text", "chars_max", "shown"),
    [("abcd", 4, "abcd"), ("abcde", 4, "abc…"), ("\x1b\x1b", 4, "\\x1…"), ("ab", 1, "…"), ("ab", 0, ""), ("", 0, "")],
    ids=ascii,
)
def test_a_text_is_never_longer_than_asked_for(text: str, chars_max: int, shown: str) -> None:
    assert plain_text(text, chars_max) == shown


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("training", True),
        ("OutOfMemory", True),
        ("", False),
        ("a b", False),
        ("7", False),
        ("é", False),
        ("a\n", False),
    ],
    ids=ascii,
)
def test_a_reason_is_one_word(text: str, word: bool) -> None:
    assert is_word(text, 20) is word
    assert not is_word("x" * 21, 20)


@pytest.mark.parametrize(
    ("text", "good"), [("GPU-1", True), ("", False), ("a b", False), ("é", False), ("x" * 9, False)]
)
def test_a_uuid_is_printable_and_short(text: str, good: bool) -> None:
    assert is_printable_ascii(text, 8) is good


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        ([[[]]], "a list"),
        ({"a": 1}, "an object"),
        (7, "7"),
        (10**5000, "an integer of 16610 bits"),
        (1.5, "1.5"),
        ("a\x1b" + "b" * 100, '"a\\x1b' + "b" * 34 + '…"'),
        (b"x", "bytes"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_in_a_sentence_is_short_and_plain(value: object, shown: str) -> None:
    assert shown_value(value) == shown


def test_an_identifier_may_have_just_the_length_that_is_allowed() -> None:
    assert [is_printable_ascii("a" * length, 8) for length in (0, 1, 8, 9)] == [False, True, True, False]


def test_an_integer_is_written_out_up_to_64_bits() -> None:
    assert [shown_value(number) for number in (2**64 - 1, 2**64)] == [str(2**64 - 1), "an integer of 65 bits"]
