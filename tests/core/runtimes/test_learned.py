"""Run times of earlier jobs as a forecast for a new one."""

from __future__ import annotations

import pytest

from cotenant.core.runtimes.learned import ENOUGH, NOTHING_LEARNED, LearnedRuntimes
from cotenant.core.runtimes.runtime_history import RuntimeHistory
from tests.support.clusters import make_job

SHORT, LONG = make_job("short-1", queue="red", gpus=1), make_job("long-1", queue="red", gpus=8)


def learned(*runs: tuple[str, float]) -> LearnedRuntimes:
    history = RuntimeHistory()
    for name, seconds in runs:
        history.record(make_job(name, queue="red", gpus=8 if name.startswith("long") else 1), seconds)
    return history.learned()


def test_run_times_are_learned_only_after_enough_jobs_ended() -> None:
    few = [(f"short-{number}", 60.0) for number in range(ENOUGH - 1)]
    assert NOTHING_LEARNED.median_s(SHORT) is None
    assert learned(*few).median_s(SHORT) is None
    assert learned(*few, ("short-9", 60.0)).median_s(SHORT) == 60


def test_jobs_of_the_same_template_count_and_others_only_if_there_are_none() -> None:
    both = learned(
        *[(f"short-{number}", 60.0 + number) for number in range(5)],
        *[(f"long-{number}", 9_000.0 + number) for number in range(5)],
    )
    stranger = make_job("stranger", queue="red", user="eve", gpus=3)
    assert both.runs_like(SHORT) == (60, 61, 62, 63, 64)
    assert both.runs_like(LONG) == (9_000, 9_001, 9_002, 9_003, 9_004)
    assert both.median_s(stranger) == 64
    assert both.median_s(make_job("short-1", queue="blue", gpus=1)) is None


def test_a_job_that_has_run_for_long_is_compared_with_those_that_ran_longer() -> None:
    known = learned(
        *[(f"short-{number}", seconds) for number, seconds in enumerate([10, 20, 30, 400, 500, 600, 700, 800])]
    )
    assert known.median_s(SHORT) == 400
    assert known.median_s(SHORT, longer_than_s=100) == 600
    assert known.median_s(SHORT, longer_than_s=400) is None


@pytest.mark.parametrize("seconds", [0.0, -5.0, 0.4])
def test_a_job_that_never_ran_teaches_nothing(seconds: float) -> None:
    history = RuntimeHistory()
    for _ in range(ENOUGH):
        history.record(SHORT, seconds)
    assert history.learned() == NOTHING_LEARNED
