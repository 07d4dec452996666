"""Text of any origin as a status may hold it."""

from __future__ import annotations

from cotenant.api.scalars.status_text import MESSAGE_CHARS_MAX, REASON_CHARS_MAX, plain_sentence, plain_word


def test_a_message_keeps_its_lines_and_shows_what_a_terminal_would_obey() -> None:
    assert plain_sentence("first\nsecond\x1b[31m") == "first\nsecond\\x1b[31m"


def test_a_reason_is_on_one_line() -> None:
    assert "\n" not in plain_word("first\nsecond")


def test_both_are_bounded() -> None:
    assert (len(plain_sentence("a" * 10_000)), len(plain_word("a" * 10_000))) == (MESSAGE_CHARS_MAX, REASON_CHARS_MAX)
