"""Amounts and requests as tenants read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.formatting import (
    counted,
    describe_request,
    describe_worker,
    format_cost,
    format_duration,
    format_gpus,
    format_instant,
    format_mib,
    join_or,
    shown_evidence,
)
from cotenant.core.model.objects import GpuRequest
from tests.support.clusters import make_job


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0"), (1, "0.001"), (10, "0.01"), (500, "0.5"), (1_000, "1"), (1_500, "1.5"), (10_000, "10")],
)
def test_gpus_are_written_without_zeros_at_the_end(milli: int, text: str) -> None:
    assert format_gpus(milli) == text


@pytest.mark.parametrize(
    ("mib", "text"), [(0, "0 MiB"), (1_023, "1023 MiB"), (1_024, "1 GiB"), (1_025, "1025 MiB"), (1_048_576, "1024 GiB")]
)
def test_memory_is_written_in_gib_if_it_is_a_whole_number_of_gib(mib: int, text: str) -> None:
    assert format_mib(mib) == text


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0.00"),
        (7, "0.000007"),
        (694, "0.00069"),
        (12_999, "0.012"),
        (99_999, "0.099"),
        (100_000, "0.10"),
        (1_999_999, "1.99"),
        (12_345_678_901, "12345.67"),
    ],
)
def test_a_cost_is_rounded_down_and_never_to_nothing(micros: int, text: str) -> None:
    assert format_cost(micros) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1m"), (90, "1m30s"), (90_000, "25h")])
def test_a_duration_is_written_as_in_a_manifest(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_count_of_one_is_in_the_singular() -> None:
    assert [counted(number, "GPU") for number in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]
    assert join_or(["a", "b", "c"]) == "a or b or c"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        pytest.param(GpuRequest(count=1), "1 GPU", id="one GPU"),
        pytest.param(GpuRequest(count=4), "4 GPUs", id="four GPUs"),
        pytest.param(GpuRequest(memory_mib=2_048), "2 GiB of a GPU", id="memory alone"),
        pytest.param(
            GpuRequest(memory_mib=2_000, compute_milli=250),
            "2000 MiB of a GPU and 0.25 of its compute",
            id="memory and compute",
        ),
        pytest.param(GpuRequest(memory_milli=400), "0.4 GPU", id="a part"),
        pytest.param(GpuRequest(compute_milli=300), "0.3 GPU", id="compute alone, which memory follows"),
        pytest.param(GpuRequest(memory_milli=400, compute_milli=400), "0.4 GPU", id="both parts alike"),
        pytest.param(
            GpuRequest(memory_milli=400, compute_milli=200), "0.4 GPU (0.2 of its compute)", id="two different parts"
        ),
        pytest.param(GpuRequest(count=2, memory_milli=500), "0.5 of each of 2 GPUs", id="parts of two"),
        pytest.param(GpuRequest(count=2, compute_milli=300), "0.3 of each of 2 GPUs", id="parts of their compute"),
        pytest.param(
            GpuRequest(count=2, memory_milli=500, compute_milli=500), "0.5 of each of 2 GPUs", id="of both alike"
        ),
        pytest.param(
            GpuRequest(count=4, memory_mib=2_048, compute_milli=250),
            "2 GiB of each of 4 GPUs and 0.25 of their compute",
            id="memory of four, and compute",
        ),
    ],
)
def test_one_worker_asks_for(request_: GpuRequest, text: str) -> None:
    assert describe_worker(request_) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param({"gpus": 2}, "2 GPUs", id="one worker"),
        pytest.param({"workers": 3}, "3 workers × 1 GPU", id="several"),
        pytest.param({"workers": (2, 9)}, "2 workers × 1 GPU", id="at least so many"),
        pytest.param({"milli": 400}, "0.4 GPU", id="one worker with a share"),
        pytest.param({"milli": 400, "workers": 2}, "2 workers × 0.4 GPU, each on a GPU of its own", id="apart"),
        pytest.param({"milli": 400, "workers": 2, "distinct_gpus": False}, "2 workers × 0.4 GPU", id="together"),
        pytest.param(
            {"gpu": GpuRequest(count=2, memory_milli=400), "workers": 2},
            "2 workers × 0.4 of each of 2 GPUs, each on GPUs of its own",
            id="of two apart",
        ),
        pytest.param(
            {"classes": ("H100", "A100"), "zones": ("east", "west")},
            "1 GPU of class H100 or A100 in zone east or west",
            id="classes and zones",
        ),
    ],
)
def test_a_job_asks_for(changes: dict[str, Any], text: str) -> None:
    assert describe_request(make_job("a", **changes)) == text


@pytest.mark.parametrize(
    ("evidence", "shown"),
    [
        ((("metric", "GPU"), ("asked", 2000), ("limit", 1500)), {"metric": "GPU", "asked": 2, "limit": 1.5}),
        ((("metric", "GPU"), ("asked", 1), ("used", 0), ("limit", 2001), ("available", 1999)),
         {"metric": "GPU", "asked": 0.001, "used": 0, "limit": 2.001, "available": 1.999}),
        ((("metric", "GPU memory"), ("asked", 16384), ("used", 100)),
         {"metric": "GPU memory", "asked": "16Gi", "used": "100Mi"}),
        ((("metric", "workers"), ("asked", 2)), {"metric": "workers", "asked": 2}),
        ((("memory_mib", 1_023 * 1_024),), {"memory": "1023Gi"}),
        ((("asked", 2), ("cpu_milli", 1500), ("memory_mib", 2048)), {"asked": 2, "cpu": "1.5", "memory": "2Gi"}),
    ],
    ids=["GPUs", "parts of GPUs", "GPU memory", "workers", "memory that is nearly a power of two", "CPU and memory"],
)  # fmt: skip
def test_figures_are_shown_in_the_units_that_people_write(
    evidence: tuple[tuple[str, str | int], ...], shown: dict[str, object]
) -> None:
    assert shown_evidence(evidence) == shown


@given(st.integers(0, 253_402_300_799))
def test_an_instant_is_written_in_iso_8601_like_in_other_tools(unix_s: int) -> None:
    assert format_instant(unix_s) == datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)


def test_an_instant_is_rounded_up_to_a_whole_second() -> None:
    assert format_instant(1_199.2) == "1970-01-01T00:20:00Z"


@pytest.mark.parametrize(
    "date",
    ["2000-02-29", "2000-03-01", "2100-02-28", "2100-03-01", "2399-12-31", "2400-02-28", "2400-02-29", "2400-03-01"],
)
def test_days_around_leap_years_and_centuries_are_written_correctly(date: str) -> None:
    """400 years end with the 29th of February."""
    assert format_instant(datetime.fromisoformat(f"{date}T00:00:00+00:00").timestamp()) == f"{date}T00:00:00Z"


def test_the_first_and_last_second_of_each_month_in_400_years_are_written_correctly() -> None:
    firsts = [datetime(year, month, 1, tzinfo=UTC) for year in range(1971, 2372) for month in range(1, 13)]
    wanted = [moment + timedelta(seconds=second) for moment in firsts for second in (-1, 0)]

    assert [format_instant(moment.timestamp()) for moment in wanted] == [f"{one:%Y-%m-%dT%H:%M:%SZ}" for one in wanted]


def test_the_first_and_last_second_of_each_minute_of_a_day_are_written_correctly() -> None:
    start = datetime(2026, 7, 1, tzinfo=UTC)
    wanted = [start + timedelta(minutes=minute, seconds=second) for minute in range(1_440) for second in (0, 59)]

    assert [format_instant(moment.timestamp()) for moment in wanted] == [f"{one:%Y-%m-%dT%H:%M:%SZ}" for one in wanted]
