"""What is believed of a job's run time: declared, or learned, by which of them has varied less."""

from __future__ import annotations

from math import e

import pytest

from cotenant.core.outlook.remaining import RemainingTimes
from cotenant.core.runtimes.learned import LearnedRuntimes
from cotenant.core.runtimes.runtime_history import RuntimeHistory
from cotenant.testing import make_job


@pytest.mark.parametrize(
    ("runs", "left"),
    [
        pytest.param([(100, 100), (300, 300), (900, 900), (2_700, 2_700), (8_100, 8_100)], 1_000, id="kept words"),
        pytest.param([(100, 200), (300, 600), (900, 1_800), (2_700, 5_400), (9_000, 18_000)], 500, id="all by half"),
        pytest.param([(1, 10), (1, 10), (10, 14), (10, 14), (10, 14)], 714, id="of the shortest runs too"),
        pytest.param([(1, 9_000)] * 4 + [(9_000, 9_000)], 1_000, id="words that were worth nothing, all alike"),
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


@pytest.mark.parametrize(
    ("job", "ran_s", "left"),
    [
        pytest.param({}, 0.0, None, id="nothing is known"),
        pytest.param({"max_runtime_s": 600}, 100.0, 500.0, id="a maximum alone"),
        pytest.param({"max_runtime_s": 600, "ran_s": 200}, 100.0, 300.0, id="of which earlier attempts used a part"),
        pytest.param({"max_runtime_s": 600}, 700.0, 1.0, id="over its maximum"),
        pytest.param({"max_runtime_s": 600, "expected_runtime_s": 400}, 100.0, 300.0, id="declared below the maximum"),
        pytest.param({"max_runtime_s": 300, "expected_runtime_s": 400}, 100.0, 200.0, id="declared above it"),
        pytest.param({"expected_runtime_s": 400, "ran_s": 50}, 100.0, 250.0, id="declared, with an earlier attempt"),
        pytest.param({"expected_runtime_s": 400}, 399.5, 1.0, id="about to end"),
        pytest.param({"expected_runtime_s": 400}, 400.0, 100.0, id="over what it declared: a part of that again"),
    ],
)
def test_without_a_past_what_a_job_declares_is_what_is_left(
    job: dict[str, int], ran_s: float, left: float | None
) -> None:
    assert RemainingTimes().draw(make_job("a", **job), ran_s, 0.0, 0.5) == left  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ran_s", "chance", "left"),
    [
        pytest.param(0.5, 0.5, 60.0, id="as its progress has it"),
        pytest.param(0.0, 0.5, 900.0, id="before it runs: as it declares"),
        pytest.param(0.5, 0.9, 60.0 * e ** (0.1 * 1.2815515655446008), id="a tenth more, one time in ten"),
        pytest.param(0.5, 0.0, 60.0 * e ** (0.1 * -3.090232306167813), id="at the least"),
        pytest.param(0.5, 0.9999, 60.0 * e ** (0.1 * 3.090232306167813), id="at the most"),
    ],
)
def test_a_job_that_runs_ends_about_when_its_progress_says(ran_s: float, chance: float, left: float) -> None:
    known = RemainingTimes(ends={"red/a": 1_060.0})
    drawn = known.draw(make_job("a", expected_runtime_s=900), ran_s, 1_000.0, chance)
    assert drawn == pytest.approx(left)
    assert known.draw(make_job("b", expected_runtime_s=900), 400.0, 1_000.0, chance) == 500.0


def test_a_job_that_should_have_ended_by_its_progress_runs_on_for_a_second() -> None:
    assert RemainingTimes(ends={"red/a": 990.0}).draw(make_job("a"), 5.0, 1_000.0, 0.5) == 1.0


def test_of_learned_run_times_what_it_has_run_already_is_over() -> None:
    history = RuntimeHistory()
    for seconds in (100, 200, 300, 400, 500):
        history.record(make_job("train-1"), seconds)

    assert RemainingTimes(history.learned()).draw(make_job("train-9"), 50.0, 0.0, 0.5) == 250.0


def test_a_job_is_taken_at_its_word_where_nobody_before_it_has_given_one() -> None:
    history = RuntimeHistory()
    for seconds in (100, 200, 300, 400, 500):
        history.record(make_job("train-1"), seconds)

    assert RemainingTimes(history.learned()).draw(make_job("train-9", expected_runtime_s=1_000), 0.0, 0.0, 0.5) == 1_000


@pytest.mark.parametrize(("chance", "left"), [(0.0, 714.0), (0.5, 833.0), (0.99, 1_000.0)])
def test_chance_chooses_how_well_a_word_is_kept(chance: float, left: float) -> None:
    history = RuntimeHistory()
    for number, (ran_s, declared_s) in enumerate(
        [(100, 100), (300, 330), (900, 1_080), (2_700, 3_510), (8_100, 11_340)]
    ):
        history.record(make_job(f"train-{number}", expected_runtime_s=declared_s), ran_s)

    drawn = RemainingTimes(history.learned()).draw(make_job("train-9", expected_runtime_s=1_000), 0.0, 0.0, chance)
    assert drawn == pytest.approx(left, abs=1)


@pytest.mark.parametrize(
    ("longest_s", "left"),
    [pytest.param(290, 100, id="less"), pytest.param(300, 500, id="as much"), pytest.param(310, 500, id="more")],
)
def test_run_times_are_believed_before_words_if_they_varied_less_between_their_quartiles(
    longest_s: int, left: int
) -> None:
    """Words were kept by 0.5 to 4 times; their upper quartile is three times the lower one."""
    kept = (500,) * 24 + (1_000,) + (2_000,) * 49 + (3_000,) + (4_000,) * 25
    known = LearnedRuntimes({"declared|red": kept, "queue|red": (100,) * 50 + (longest_s,) * 50})

    assert RemainingTimes(known).draw(make_job("a", expected_runtime_s=1_000), 0.0, 0.0, 0.0) == left
