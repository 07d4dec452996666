"""A TrainingJob, decoded."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.informers.job_record import read_job
from tests.controller.builders import job_document


@pytest.mark.parametrize(
    ("spec", "workers", "gpus"),
    [
        ({"workers": 2, "gpu": {"memoryFraction": "0.4"}}, "2", "2 × 0.4"),
        ({"workers": 1, "gpu": {"count": 4}}, "1", "4"),
        ({"workers": 8, "gpu": {"count": 2}}, "8", "8 × 2"),
        ({"workers": 3, "gpu": {"memory": "16Gi"}}, "3", "3 × 16Gi"),
        ({"workers": 8, "minWorkers": 2, "checkpoint": {"path": "s3://c/ckpt"}}, "2-8", "8 × 0.4"),
        ({"workers": 8, "minWorkers": 8, "checkpoint": {"path": "s3://c/ckpt"}}, "8", "8 × 0.4"),
        ({"workers": 0}, None, None),
    ],
    ids=str,
)
def test_what_a_job_asks_for_in_short(spec: dict[str, Any], workers: str | None, gpus: str | None) -> None:
    record = read_job(job_document(**spec))
    assert record.size_requested == {"workers": workers, "gpus": gpus}
    shown = record.observed_status
    assert (shown.workers, shown.gpus) == (workers, gpus)


def test_what_runs_of_an_elastic_job_is_what_was_placed() -> None:
    record = read_job(job_document(workers=8, minWorkers=2, checkpoint={"path": "s3://c/ckpt"}))
    assert record.size_placed(3) == {"workers": "3", "gpus": "3 × 0.4"}
