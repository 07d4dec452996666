"""Tables, times and colours as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cotenant.cli.queries.output import Colour, about_when, painted, table

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
    assert painted("text", Colour.RED) == "text"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert painted("text", Colour.RED) == "\x1b[31mtext\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("text", Colour.RED) == "text"
