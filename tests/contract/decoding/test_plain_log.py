"""Lines of a log that quote foreign text, as a terminal shows them."""

from __future__ import annotations

import logging

import pytest

from cotenant.contract.decoding.plain_log import PlainFormatter


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("feed", logging.WARNING, "feed.py", 1, message, None, None)


def test_what_is_quoted_can_neither_end_a_line_nor_move_a_cursor() -> None:
    assert PlainFormatter("%(name)s: %(message)s").format(record("odd \x1b[2J\nWARNING all is well")) == (
        "feed: odd \\x1b[2J WARNING all is well"
    )


@pytest.mark.parametrize(
    ("chars", "shown"), [(8000, "x" * 8000), (8001, "x" * 7999 + "…"), (100_000, "x" * 7999 + "…")]
)
def test_a_line_has_8000_characters_at_the_most(chars: int, shown: str) -> None:
    assert PlainFormatter().format(record("x" * chars)) == shown


def traceback(chars: int) -> str:
    """The traceback of an error with a text of so many characters."""
    try:
        raise ValueError("x" * chars)
    except ValueError as error:
        return PlainFormatter().formatException((ValueError, error, error.__traceback__))


def test_a_traceback_keeps_its_lines_and_has_32000_characters_at_the_most() -> None:
    assert traceback(1).splitlines()[0] == "Traceback (most recent call last):"
    room = 32_000 - len(traceback(0)) - len(": ")
    assert [len(traceback(room)), traceback(room)[-1]] == [32_000, "x"]
    assert [len(traceback(room + 1)), traceback(room + 1)[-1]] == [32_000, "…"]
