"""Numbers by which policies are compared, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.simulator.job_run import Held
from cotenant.simulator.outcomes import Load, ReplayedJob, fairness, outcomes_of, summarise
from tests.simulator.worlds import gpu_node, job, played, queue

HOUR = 3600.0


def outcome(name: str, submitted_at: float, duration_s: float, start: float, end: float, **more: object) -> ReplayedJob:
    held = (Held(start, end, 1000),)
    return ReplayedJob(
        name=name,
        queue="red",
        milli=1000,
        submitted_at=submitted_at,
        duration_s=duration_s,
        first_start=start,
        end=end,
        held=held,
        **more,  # type: ignore[arg-type]
    )


FIRST = outcome("a", 0, HOUR, 0, HOUR)
SECOND = outcome("b", 0, HOUR, HOUR, 2 * HOUR)
THIRD = outcome("c", 2 * HOUR, HOUR, 2 * HOUR, 3 * HOUR, evictions=2, lost_s=HOUR)


def test_a_job_with_its_equal_share_has_a_rho_of_at_most_one() -> None:
    # One GPU. For an hour two jobs are there, then one: the second had an average load of 1.5 and waited for its turn.
    assert fairness([FIRST, SECOND, THIRD], 1) == pytest.approx([0.5, 2 / 1.5, 1.0])


def test_the_figures_of_a_policy_are_summed_up() -> None:
    found = summarise("Age", [FIRST, SECOND, THIRD], 1)
    assert (found.jobs, found.ended, found.evictions, found.evictions_most) == (3, 3, 2, 2)
    assert (found.jct_mean_h, found.jct_p50_h, found.jct_p99_h) == pytest.approx((4 / 3, 1.0, 2.0))
    assert (found.wait_mean_h, found.lost_gpu_h, found.makespan_h) == pytest.approx((1 / 3, 1.0, 3.0))
    assert (found.busy_percent, found.evictions_per_job) == pytest.approx((100.0, 2 / 3))
    assert found.unfair_percent == pytest.approx(100 / 3)


def test_outcomes_of_a_history_hold_what_was_held() -> None:
    _, history = played(gpu_node("n", 1), queue("a", "1"), *[job(name, gpus=1, runs="100s") for name in ("one", "two")])
    one, two = outcomes_of(history)
    assert (one.name, one.jct_s, one.milli) == ("a/one", 100.0, 1000)
    assert (two.first_start, two.jct_s) == (history.start + 100, 200.0)
    assert two.held == (Held(history.start + 100, history.start + 200, 1000),)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50), st.integers(1, 9)), max_size=8),
    st.integers(0, 99),
    st.integers(1, 50),
)
def test_the_mean_of_a_load_is_the_mean_of_its_seconds(
    parts: list[tuple[int, int, int]], start: int, length: int
) -> None:
    load = Load((float(at), float(at + lasts), float(amount)) for at, lasts, amount in parts)
    seconds = [
        sum(amount for at, lasts, amount in parts if at <= now < at + lasts) for now in range(start, start + length)
    ]
    assert load.mean(start, start + length) == pytest.approx(sum(seconds) / length)
    assert load.at(start) == pytest.approx(seconds[0])
