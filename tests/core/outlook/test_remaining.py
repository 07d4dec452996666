"""Remaining run times: declarations and earlier runs, each weighted by its precision."""

from __future__ import annotations

from math import e

import pytest

from cotenant.core.outlook.remaining import RemainingTimes
from cotenant.core.runtimes.learned import LearnedRuntimes
from cotenant.core.runtimes.runtime_history import RuntimeHistory
from tests.support.clusters import make_job

EVEN = (250, 500, 1_000, 2_000, 4_000)
"""Spread evenly around 1,000 by a factor of two."""
WIDER = (62, 250, 1_000, 4_000, 16_000)
"""Around 1,000 by a factor of four."""


@pytest.mark.parametrize(
    ("ratios", "runs", "left"),
    [
        pytest.param((1_000,) * 5, WIDER, 4_000, id="words that were always kept decide alone"),
        pytest.param((500,) * 5, WIDER, 2_000, id="and words that were always twice the run time"),
        pytest.param((1_000,) * 5, (300,) * 5, 4_000, id="even where all runs were equal"),
        pytest.param(EVEN, EVEN, 2_000, id="both count alike if they varied alike: the geometric mean"),
        pytest.param(WIDER, EVEN, 1_320, id="words that varied twice as much count a fourth"),
        pytest.param(EVEN, WIDER, 3_031, id="and so do runs"),
        pytest.param(WIDER, (1_000,) * 5, 1_001, id="guesses hardly count beside runs that were equal"),
        pytest.param(EVEN, (), 4_000, id="without runs words decide"),
    ],
)
def test_declarations_and_earlier_runs_are_weighted_by_how_little_they_vary(
    ratios: tuple[int, ...], runs: tuple[int, ...], left: int
) -> None:
    known = RemainingTimes(LearnedRuntimes({"declared|red": ratios, "queue|red": runs}))

    drawn = known.draw(make_job("a", expected_runtime_s=4_000), 0.0, 0.0, 0.5)
    assert drawn == pytest.approx(left, rel=0.005)


def test_two_sources_together_give_a_narrower_estimate_than_each_alone() -> None:
    def upper(*groups: str) -> float:
        known = RemainingTimes(LearnedRuntimes(dict.fromkeys(groups, EVEN)))
        return known.draw(make_job("a", expected_runtime_s=1_000), 0.0, 0.0, 0.8413447460685429) or 0.0

    assert upper("declared|red") == pytest.approx(1_000 * 2**1.581, rel=0.001)
    assert upper("declared|red", "queue|red") == pytest.approx(1_000 * 2 ** (1.581 / 2**0.5), rel=0.001)


@pytest.mark.parametrize(
    ("of_template", "left", "factor"),
    [
        pytest.param((), 1_000, 3.0, id="none yet: as the queue"),
        pytest.param((100,), 316, 3.9, id="the first counts as much as all of the queue"),
        pytest.param((100,) * 3, 178, 2.5, id="three of them outweigh the queue"),
        pytest.param((100,) * 99, 102, 1.2, id="many decide alone"),
    ],
)
def test_few_runs_of_a_template_are_combined_with_those_of_its_queue(
    of_template: tuple[int, ...], left: int, factor: float
) -> None:
    """Runs of the queue vary around 1,000 by a factor of 3. `factor`: by what the next run of the template varies."""
    known = RemainingTimes(LearnedRuntimes({"queue|red": EVEN, "template|red|red/a": of_template}))

    middle, upper = (known.draw(make_job("a"), 0.0, 0.0, chance) or 0.0 for chance in (0.5, 0.8413447460685429))
    assert middle == pytest.approx(left, rel=0.005)
    assert upper / middle == pytest.approx(factor, rel=0.03)


def test_runs_of_a_template_alone_are_too_few_before_the_queue_has_five() -> None:
    known = RemainingTimes(LearnedRuntimes({"queue|red": (100,) * 4, "template|red|red/a": (100,) * 4}))

    assert known.draw(make_job("a"), 0.0, 0.0, 0.5) is None


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
def test_without_history_the_declared_run_time_is_used(job: dict[str, int], ran_s: float, left: float | None) -> None:
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


def test_a_job_past_its_predicted_end_is_assumed_to_run_one_more_second() -> None:
    assert RemainingTimes(ends={"red/a": 990.0}).draw(make_job("a"), 5.0, 1_000.0, 0.5) == 1.0


@pytest.mark.parametrize(
    ("ran_s", "left"),
    [
        pytest.param(0.0, 1_000, id="half of them run longer"),
        pytest.param(1_000.0, 1_094, id="three quarters of them are shorter than the middle of the longer half"),
        pytest.param(20_000.0, 5_477, id="longer than all that ended: what remains of the distribution"),
        pytest.param(1_000_000.0, 250_000, id="beyond all that is known: a part of that again"),
    ],
)
def test_learned_run_times_shorter_than_the_present_run_are_left_out(ran_s: float, left: float) -> None:
    known = RemainingTimes(LearnedRuntimes({"queue|red": EVEN}))

    assert known.draw(make_job("a"), ran_s, 0.0, 0.5) == pytest.approx(left, rel=0.005)


def test_a_declaration_is_trusted_if_none_was_made_before() -> None:
    history = RuntimeHistory()
    for seconds in (100, 200, 300, 400, 500):
        history.record(make_job("train-1"), seconds)

    assert RemainingTimes(history.learned()).draw(make_job("train-9", expected_runtime_s=1_000), 0.0, 0.0, 0.5) == 1_000


@pytest.mark.parametrize(
    ("chance", "left"), [(0.0, 34.0), (0.16, 336.0), (0.5, 1_000.0), (0.84, 2_974.0), (1.0, 29_600.0)]
)
def test_the_random_draw_picks_from_the_distribution(chance: float, left: float) -> None:
    known = RemainingTimes(LearnedRuntimes({"queue|red": EVEN}))

    assert known.draw(make_job("a"), 0.0, 0.0, chance) == pytest.approx(left, rel=0.01)
