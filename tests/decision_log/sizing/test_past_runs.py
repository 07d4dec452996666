"""What a run says of how long the job's work takes, and which runs say nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.decision_log.measured_use import MeasuredUse
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.sizing.past_runs import Measurement, RunShape, measurements, memory_peak_mib, whole_seconds

RUN = RunRecord(
    namespace="red", name="train", uid="u", queue="q", outcome="Succeeded", workers=2, gpu="1", gpu_class="H100",
    run_seconds=1_000, attempts=1,
)  # fmt: skip
BUSY = MeasuredUse(samples=100, busy_samples=100, busy_percent_sum=8_000, memory_peak_mib=9_000, held_mib=80_000)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        pytest.param({}, 1_000, id="it succeeded"),
        pytest.param({"outcome": "Running", "steps": 100, "steps_of": 400}, 4_000, id="a quarter of its steps"),
        pytest.param({"outcome": "Failed", "steps": 9, "steps_of": 400}, None, id="hardly a step"),
        pytest.param({"outcome": "Running", "steps": 100}, None, id="it does not say of how many"),
        pytest.param({"outcome": "Failed"}, None, id="it failed without steps"),
        pytest.param({"attempts": 2}, None, id="started again: what of its time was new is not known"),
        pytest.param({"restarts": 1}, None, id="started again in its pods"),
        pytest.param({"run_seconds": 59}, None, id="too short"),
        pytest.param({"gpu_class": ""}, None, id="its class is not known"),
    ],
)
def test_seconds_of_all_of_its_work(changes: dict[str, Any], seconds: int | None) -> None:
    assert whole_seconds(replace(RUN, **changes)) == seconds


def test_runs_of_one_shape_are_one_measurement_by_the_median() -> None:
    runs = [
        replace(RUN, run_seconds=900, use=BUSY),
        RUN,
        replace(RUN, run_seconds=5_000, use=replace(BUSY, shared=True)),
        replace(RUN, workers=4, run_seconds=600),
        replace(RUN, outcome="Deleted"),
    ]
    two = Measurement(shape=RunShape("H100", 2, "1"), seconds=1_000, runs=3, busy_percent=80)
    four = Measurement(shape=RunShape("H100", 4, "1"), seconds=600, runs=1)
    assert measurements(runs) == ((two, four), 1)
    assert measurements([]) == ((), 0)


def test_the_peak_is_the_most_of_any_run_as_the_agents_saw_it_or_its_framework_counts() -> None:
    runs = [replace(RUN, use=BUSY, memory_peak_mib=20_000), replace(RUN, memory_peak_mib=9_500)]
    assert (memory_peak_mib(runs), memory_peak_mib([RUN]), memory_peak_mib([])) == (9_500, 0, 0)
