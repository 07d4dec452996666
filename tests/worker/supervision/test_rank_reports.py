"""Reports of ranks as they go over a socket: the names and the defaults that the shim relies on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant_worker.supervision.messages import MESSAGES
from cotenant_worker.supervision.rank_reports import (
    CheckpointSaved,
    CheckpointStarted,
    CollectiveBackend,
    MemoryPeak,
    PreflightTimes,
    ProgressWarning,
    RankReport,
    ResultsReport,
    StepReport,
    VisibleGpus,
)

REPORTS: list[tuple[RankReport, dict[str, Any]]] = [
    (
        StepReport(1, 7, counted=True, at_monotonic_s=9.5),
        {"op": "report", "step": 7, "counted": True, "at_monotonic_s": 9.5},
    ),
    (StepReport(1, 7, of=9, metrics={"loss": 0.5}), {"op": "report", "step": 7, "of": 9, "metrics": {"loss": 0.5}}),
    (ResultsReport(1, {"model": "a", "loss": 0.5}), {"op": "results", "values": {"model": "a", "loss": 0.5}}),
    (CheckpointStarted(1, 7), {"op": "saving", "step": 7}),
    (CheckpointSaved(1, 7), {"op": "saved", "step": 7}),
    (
        PreflightTimes(1, 2.5, 1024, 1.5, "cuda"),
        {"op": "preflight", "all_reduce_ms": 2.5, "all_reduce_bytes": 1024, "own_ms": 1.5, "device": "cuda"},
    ),
    (CollectiveBackend(1, "gloo"), {"op": "collective", "name": "gloo"}),
    (VisibleGpus(1, ("GPU-a",), 3), {"op": "visible-gpus", "uuids": ["GPU-a"], "grant": 3}),
    (VisibleGpus(1, ()), {"op": "visible-gpus", "uuids": []}),
    (MemoryPeak(1, 512), {"op": "memory", "peak_mib": 512}),
    (ProgressWarning("key", "text", 1), {"op": "warning", "key": "key", "text": "text"}),
]


@pytest.mark.parametrize(("report", "line"), REPORTS)
def test_a_line_of_the_shim_is_this_report(report: RankReport, line: dict[str, Any]) -> None:
    assert MESSAGES.decode(json.dumps(line | {"rank": 1}).encode()) == report


@pytest.mark.parametrize("report", [report for report, _ in REPORTS])
def test_a_report_comes_out_of_a_socket_as_it_went_in(report: RankReport) -> None:
    assert MESSAGES.decode(MESSAGES.encode(report)) == report
