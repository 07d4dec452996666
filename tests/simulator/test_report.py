"""What a history comes to: waits, busy GPUs, and who never ran."""

import pytest

from cotenant.simulator import report
from tests.simulator.worlds import gpu_node, job, played, queue


def test_a_job_that_can_never_start_is_reported_with_the_cores_reason() -> None:
    read, history = played(
        gpu_node("n", 2), queue("a", "16"), job("big", gpus=16, runs="10s"), job("ok", gpus=1, runs="10s")
    )
    summary = report.summarise(read, history)
    assert (summary.jobs, summary.ended) == (2, 1)
    ((name, why),) = summary.never
    assert name == "a/big"
    assert why.startswith("ExceedsCluster")


def test_busy_gpu_time_equals_held_gpu_time() -> None:
    read, history = played(
        gpu_node("n", 2), queue("a", "2"), job("one", gpus=1, runs="100s"), job("two", gpus=2, runs="100s")
    )
    # 100 s with one or two of two GPUs, then the rest: 300 GPU-seconds of 400.
    assert report.summarise(read, history).gpus_busy_percent == pytest.approx(75.0)


def test_waits_and_turnarounds_are_counted_from_the_arrival() -> None:
    jobs = [job(name, gpus=1, runs="100s") for name in ("one", "two", "three")]
    summary = report.summarise(*played(gpu_node("n", 1), queue("a", "1"), *jobs))
    assert summary == report.Report(
        jobs=3,
        ended=3,
        makespan_s=300.0,
        wait_mean_s=100.0,
        wait_p99_s=200.0,
        turnaround_mean_s=200.0,
        gpus_busy_percent=100.0,
        evictions=0,
        never=(),
    )
    assert report.as_text(summary) == [
        "jobs            3, 3 ended",
        "makespan        300 s",
        "wait            mean 100 s, p99 200 s",
        "turnaround      mean 200 s",
        "GPUs busy       100.0 %",
        "evictions       0",
    ]


@pytest.mark.parametrize(
    ("values", "percent", "want"),
    [([], 99, 0.0), ([3, 1, 2], 50, 2), ([3, 1, 2], 99, 3), ([1, 2, 3, 4], 50, 2), ([1, 2], 1, 1), ([5], 0, 5)],
)
def test_a_percentile_is_one_of_the_values_by_nearest_rank(values: list[float], percent: int, want: float) -> None:
    assert report.percentile(values, percent) == want


def test_the_mean_of_nothing_is_nothing() -> None:
    assert (report.mean([]), report.mean([1, 2, 6])) == (0.0, 3.0)
