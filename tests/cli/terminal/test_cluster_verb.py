"""Times on a command line: as kubectl takes them, and in days and weeks; `--timeout` takes seconds too."""

from __future__ import annotations

import argparse

import pytest

from cotenant.cli.terminal.cluster_verb import seconds, time


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("90", 90),
        ("0.5", 0.5),
        ("90s", 90),
        ("15m", 900),
        ("1h30m", 5400),
        ("1m30s", 90),
        ("2h", 7200),
        ("1d", 86_400),
    ],
)
def test_a_time_is_read(text: str, want: float) -> None:
    assert seconds(text) == want


@pytest.mark.parametrize("text", ["", "soon", "-1", "m", "1s2m", "inf", "0d", "2.5d", "1h1d"])
def test_what_is_no_time_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a time such as 90s, 1h30m, 7d or 4w"):
        seconds(text)


def test_a_number_without_a_unit_is_seconds_of_a_timeout_and_no_time() -> None:
    assert (time("1w2d").days, seconds("14")) == (9, 14)
    with pytest.raises(argparse.ArgumentTypeError, match="not 14"):
        time("14")
