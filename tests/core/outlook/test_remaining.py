"""What is believed of a job's run time: declared, or learned, by which of them has varied less."""

from __future__ import annotations

import pytest

from cotenant.core.outlook.remaining import RemainingTimes
from cotenant.core.runtimes.history import RuntimeHistory
from cotenant.testing import make_job


@pytest.mark.parametrize(
    ("runs", "left"),
    [
        pytest.param([(100, 100), (300, 300), (900, 900), (2_700, 2_700), (8_100, 8_100)], 1_000, id="kept words"),
        pytest.param([(100, 200), (300, 600), (900, 1_800), (2_700, 5_400), (9_000, 18_000)], 500, id="all by half"),
        pytest.param([(300, 100), (310, 3_000), (320, 900), (330, 30_000), (340, 200)], 320, id="guesses"),
    ],
)
def test_of_declared_and_earlier_run_times_the_one_that_varied_less_is_believed(
    runs: list[tuple[int, int]], left: int
) -> None:
    history = RuntimeHistory()
    for number, (ran_s, declared_s) in enumerate(runs):
        history.record(make_job(f"train-{number}", expected_runtime_s=declared_s), ran_s)

    known = RemainingTimes(history.learned())

    assert known.draw(make_job("train-9", expected_runtime_s=1_000), 0.0, 0.0, 0.5) == left
