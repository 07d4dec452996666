"""`--timeout` takes seconds, and times as kubectl takes them."""

from __future__ import annotations

import argparse

import pytest

from cotenant.cli.terminal.cluster_verb import seconds


@pytest.mark.parametrize(
    ("text", "want"),
    [("0", 0), ("90", 90), ("0.5", 0.5), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("1m30s", 90), ("2h", 7200)],
)
def test_a_time_is_read(text: str, want: float) -> None:
    assert seconds(text) == want


@pytest.mark.parametrize("text", ["", "soon", "-1", "1d", "m", "1s2m", "inf"])
def test_what_is_no_time_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a time such as 90s or 15m"):
        seconds(text)
