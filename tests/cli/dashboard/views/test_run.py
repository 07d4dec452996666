"""The page of a job that is gone, from the record of its run."""

from __future__ import annotations

from typing import Any

from cotenant.dashboard.reading.run_rows import run_row
from cotenant.dashboard.views.course import CourseBar
from cotenant.dashboard.views.run import HAPPENINGS, HappeningLine, RunView, recorded_figures, run_view

RECORD: dict[str, Any] = {
    "metadata": {"name": "gone", "namespace": "speech"},
    "status": {
        "outcome": "Deleted", "reason": "Running", "message": "4 workers", "queue": "speech", "gpuSeconds": 5_400,
        "gpuClass": "H100", "workers": 4, "attempts": 2, "createdAt": "1970-01-01T00:00:10Z",
        "startedAt": "1970-01-01T00:00:20Z", "finishedAt": "1970-01-01T01:00:00Z",
        "cost": {"micros": 3_756_789, "currency": "EUR", "unpricedGPUSeconds": 0},
        "use": {"busyPercent": 61, "memoryPeakMiB": 2048}, "tail": ["one", "two"], "advice": ["ask for less"],
        "timeline": [
            {"at": "1970-01-01T00:00:10Z", "what": "Waits", "reason": "WaitingForGPUs", "message": "Needs 4."},
            {"at": "1970-01-01T00:00:20Z", "what": "Admitted"},
        ],
    },
}  # fmt: skip


def test_all_that_is_recorded_is_there_the_newest_first() -> None:
    assert run_view(RECORD) == RunView(
        row=run_row(RECORD),
        figures=(
            ("GPU-hours held", "1.50"),
            ("Cost", "3.75 EUR"),
            ("GPUs of", "H100"),
            ("Workers", "4"),
            ("Attempts", "2"),
            ("GPUs busy", "61 %"),
            ("Most GPU memory", "2Gi"),
        ),
        happenings=(
            HappeningLine(at=20.0, what="Admitted", reason="", message=""),
            HappeningLine(at=10.0, what="Waits", reason="WaitingForGPUs", message="Needs 4."),
        ),
        tail="one\ntwo",
        advice=("ask for less",),
        course=(
            CourseBar(x=0.0, width=2.79, kind="waits", says="waited 01-01 00:00 UTC to 01-01 00:00 UTC"),
            CourseBar(x=2.79, width=997.21, kind="runs", says="held GPUs 01-01 00:00 UTC to 01-01 01:00 UTC"),
        ),
    )


def test_of_very_much_that_happened_the_newest_is_shown() -> None:
    timeline = [{"at": "1970-01-01T00:00:10Z", "what": str(number)} for number in range(HAPPENINGS + 5)]
    found = run_view({"metadata": RECORD["metadata"], "status": {"outcome": "Failed", "timeline": timeline}}).happenings
    assert (len(found), found[0].what, found[-1].what) == (HAPPENINGS, str(HAPPENINGS + 4), "5")


def test_of_a_job_that_is_there_the_record_has_whose_it_is_and_what_it_costs() -> None:
    found = recorded_figures(RECORD | {"status": RECORD["status"] | {"user": "ann"}})
    assert found == (("User", "ann"), ("Cost", "3.75 EUR"), ("GPUs busy", "61 %"), ("Most GPU memory", "2Gi"))
    assert recorded_figures({}) == ()
