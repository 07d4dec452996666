"""Philly's log: attempts, and what the log has lost of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.simulator.traces.philly import read_philly
from cotenant.simulator.traces.trace import TraceError, TraceJob


def attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, Any]:
    detail = [{"ip": f"m{node}", "gpus": [f"gpu{index}" for index in range(count)]} for node, count in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


def job(*attempts: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1_2",
        "attempts": list(attempts),
        "submitted_time": "1970-01-01 00:10:00",
        "user": "ce2f4c",
    }


def test_a_job_runs_for_the_sum_of_its_attempts_on_the_gpus_of_the_last() -> None:
    first = attempt("1970-01-01 00:11:00", "1970-01-01 00:12:00", 8)
    lost = attempt("1970-01-01 00:13:00", None, 8)
    last = attempt("1970-01-01 00:20:00", "1970-01-01 01:20:00", 8, 8)
    trace = read_philly([json.dumps([job(first, lost, last), job(lost), job()])])
    assert trace.jobs == (
        TraceJob(name="application_1_2", submitted_at=600.0, duration_s=3660.0, gpus=16, queue="ee9e8c", user="ce2f4c"),
    )
    assert trace.notes == ("2 × not used: has no attempt with a start, an end and a GPU",)


@pytest.mark.parametrize(
    ("text", "says"), [("{", "not JSON"), ('[{"vc": "a"}]', "job 1 of the trace"), ("[7]", "job 1")]
)
def test_another_kind_of_log_is_refused(text: str, says: str) -> None:
    with pytest.raises(TraceError, match=says):
        read_philly([text])
