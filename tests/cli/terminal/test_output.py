"""Tables, times and colours as a person reads them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cotenant.cli.terminal.output import Colour, about_when, as_document, painted, table
from cotenant.cli.terminal.plain_stream import plain_output
from cotenant.contract.decoding.plain_text import printable

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wait", "ends"),
    [
        (timedelta(seconds=-5), "(any moment)"),
        (timedelta(seconds=90), "(in 1 min)"),
        (timedelta(minutes=20), "(in 20 min)"),
        (timedelta(hours=3), "(in 3 h)"),
        (timedelta(days=3), "(in 3 d)"),
    ],
)
def test_a_time_is_told_by_the_clock_and_from_now(wait: timedelta, ends: str) -> None:
    shown = about_when((NOW + wait).isoformat(), NOW)
    assert shown.endswith(ends)
    assert ((NOW + wait).astimezone().strftime("%H:%M") in shown) is True


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("NAME", "GPUS"), [("a", "1"), ("longer", "16")]) == "NAME     GPUS\na        1\nlonger   16"


def test_there_is_no_colour_but_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def printed() -> str:
        with plain_output():
            print(painted("text", Colour.RED), end="")
        text = shown.getvalue()
        shown.truncate(shown.seek(0))
        return text

    assert printed() == "text"
    monkeypatch.setattr(shown, "isatty", lambda: True)
    assert printed() == "\x1b[31mtext\x1b[0m"
    assert painted("text", Colour.RED) == "text"  # where nothing unseals it
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed() == "text"


HOSTILE = "a\x1b[31m\x9b2J\u202e\U000e0100é\nb"


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_are_printable_and_say_what_they_say(form: str, read: Callable[[str], object]) -> None:
    document = {"metadata": {"name": HOSTILE}, "plain": "é"}
    text = as_document(document, form)
    assert read(text) == document
    assert all(line == printable(line) for line in text.split("\n"))


SCRIPT = "import time\n\nfor step in range(3):\n\ttime.sleep(1)  \n    # ü\n"


def test_a_text_of_several_lines_is_a_block_as_it_was_written() -> None:
    document = {"items": [{"data": {"train.py": SCRIPT}}]}
    text = as_document(document, "yaml")
    assert text == (
        "items:\n- data:\n    train.py: |\n      import time\n\n      for step in range(3):\n"
        "      \ttime.sleep(1)  \n          # ü\n"
    )
    assert yaml.safe_load(text) == document


@given(st.text(alphabet="ab \t\n-:#|>'\"ü\x1b", max_size=12), st.booleans())
def test_whatever_a_text_has_yaml_says_it(text: str, is_beside: bool) -> None:
    """A text beside it that has to be escaped changes how the whole document is written."""
    document = {"a": [{text or "b": text, "c": text}], "d": "\x1b" if is_beside else "e"}
    assert yaml.safe_load(as_document(document, "yaml")) == document


def test_a_cell_is_one_line() -> None:
    assert table(("NAME", "SAYS"), [("a", "one\ntwo")]).splitlines() == ["NAME   SAYS", "a      one two"]
