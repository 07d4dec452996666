"""What rank 0 answers, as the status shows it. Pure."""

import pytest

from cotenant.contract import Progress
from cotenant.controller.lifecycle.progress import coarse, summary


@pytest.mark.parametrize(
    ("step", "of", "rate", "text", "remaining"),
    [
        (0, 0, 0.0, "", None),
        (7, 0, 2.0, "7", None),
        (120, 400, 0.0, "120/400 (30 %)", None),
        (120, 400, 7.0, "120/400 (30 %), 40s left", 40),
        (120, 400, 3.0, "120/400 (30 %), 1m30s left", 94),
        (120, 400, 0.5, "120/400 (30 %), 9m left", 560),
        (120, 100_000, 1.0, "120/100000 (0 %), 27h44m left", 99_880),
        (400, 400, 2.0, "400/400 (100 %)", 0),
        (500, 400, 2.0, "500/400 (100 %)", 0),
    ],
    ids=str,
)
def test_the_table_says_how_far_and_how_long(step: int, of: int, rate: float, text: str, remaining: int | None) -> None:
    said = summary(Progress(state="training", step=step, of=of, rate=rate))
    assert (said.summary, said.remaining_seconds) == (text, remaining)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1, 1), (59, 59), (60, 60), (61, 60), (69, 60), (299, 290), (300, 300), (359, 300), (3600, 3600)],
)
def test_remaining_time_is_shown_by_tens_of_seconds_from_a_minute_on_and_by_minutes_from_five(
    seconds: int, shown: int
) -> None:
    assert coarse(seconds) == shown
