"""A plain stream passes only those control characters that the program itself has sealed."""

from __future__ import annotations

import io
import re
from typing import TextIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.cli.terminal.plain_stream import PlainStream, plain_output, sealed, unsealed


def written(text: str) -> str:
    out = io.StringIO()
    cast("TextIO", PlainStream(out)).write(text)
    return out.getvalue()


@given(st.text())
def test_whatever_is_written_is_printable(text: str) -> None:
    assert re.sub(r"[\n\t]", "", written(text)).isprintable()


@given(st.text(st.characters(max_codepoint=126, min_codepoint=32)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert written(f"{text}\n\t{text}") == f"{text}\n\t{text}"


def test_a_terminal_or_file_without_a_character_shows_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """linode/linode-cli#161: a redirected stdout of Windows has the code page, not UTF-8."""
    body = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(body, encoding="ascii", write_through=True))
    with plain_output():
        print("2 × 0.4 H100")
    assert body.getvalue() == b"2 ? 0.4 H100\n"


def test_the_programs_own_sequences_pass_and_those_of_others_are_shown() -> None:
    text = f"{sealed('[31m')}red\x1b[31m{sealed('[0m')} \x1b]0;title\x07"
    assert written(text) == "\x1b[31mred\\x1b[31m\x1b[0m \\x1b]0;title\\x07"
    assert unsealed(f"{sealed('[1m')}bold{sealed('[0m')}") == "bold"
