"""Orders of the literature on a pool, against histories worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.simulator.traces.trace import TraceJob
from cotenant.simulator.yardsticks import LAS_GPU_S, YARDSTICKS, play_on_pool


def job(name: str, at: float, duration_s: float, gpus: int = 1) -> TraceJob:
    return TraceJob(name=name, submitted_at=at, duration_s=duration_s, gpus=gpus)


LONG, SHORT = job("long", 0, 2 * LAS_GPU_S), job("short", 2_000, 600)


@pytest.mark.parametrize(
    ("name", "ends", "evictions"),
    [
        ("FIFO", [7_200.0, 7_800.0], [0, 0]),
        ("LAS", [7_800.0, 4_200.0], [1, 0]),
        ("SRSF", [7_800.0, 2_600.0], [1, 0]),
    ],
)
def test_the_order_decides_how_long_a_short_job_behind_a_long_one_waits(
    name: str, ends: list[float], evictions: list[int]
) -> None:
    found = play_on_pool(name, [LONG, SHORT], 1)
    assert [one.end for one in found] == pytest.approx(ends)
    assert [one.evictions for one in found] == evictions


def test_a_large_job_without_room_lets_small_ones_pass_and_one_above_the_pool_never_runs() -> None:
    found = play_on_pool(
        "FIFO", [job("one", 0, 100), job("two", 1, 100, 2), job("three", 2, 10), job("four", 3, 1, 3)], 2
    )
    assert [one.end for one in found] == pytest.approx([100.0, 200.0, 12.0, None])


@given(
    st.lists(st.tuples(st.integers(0, 9_000), st.integers(1, 9_000), st.integers(1, 4)), min_size=1, max_size=12),
    st.sampled_from(sorted(YARDSTICKS)),
)
def test_every_job_gets_all_of_its_time_and_no_gpu_is_given_twice(jobs: list[tuple[int, int, int]], name: str) -> None:
    found = play_on_pool(name, [job(str(number), *one) for number, one in enumerate(jobs)], 4)
    assert all(one.end is not None for one in found)
    for one in found:
        assert sum(part.end - part.start for part in one.held) == pytest.approx(one.duration_s)
    moments = sorted({part.start for one in found for part in one.held})
    for moment in moments:
        assert sum(part.milli for one in found for part in one.held if part.start <= moment < part.end - 1e-6) <= 4_000
