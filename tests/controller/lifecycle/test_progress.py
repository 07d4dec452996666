"""What rank 0 answers, as the status shows it. Pure."""

import pytest

from cotenant.contract import Progress
from cotenant.controller.lifecycle.progress import summary


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
