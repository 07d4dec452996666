"""Rows of runs, and of the jobs that they were."""

from __future__ import annotations

from cotenant.dashboard.reading.rows import JobRow
from cotenant.dashboard.reading.run_rows import RunRow, as_job, run_row
from tests.cli.dashboard.views.test_run import RECORD

WHOLE = RunRow(
    namespace="speech", name="gone", queue="speech", outcome="Deleted", reason="Running", message="4 workers",
    asked="4 × 0.5 H100", created=10.0, started=20.0, finished=3_600.0, gpu_s=5_400, attempts=2, busy=61,
    micros=3_756_789, currency="EUR",
)  # fmt: skip


def test_a_row_has_what_the_record_says() -> None:
    assert run_row({**RECORD, "status": RECORD["status"] | {"gpu": "0.5"}}) == WHOLE
    assert run_row({"metadata": {"namespace": "a", "name": "b"}}) == RunRow(namespace="a", name="b")


def test_the_job_that_it_was_is_over() -> None:
    assert as_job(WHOLE) == JobRow(
        namespace="speech", name="gone", queue="speech", phase="Deleted", reason="Running", gpus="4 × 0.5 H100",
        created=10.0, started=20.0, finished=3_600.0,
    )  # fmt: skip
