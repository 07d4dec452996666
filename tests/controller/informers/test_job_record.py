"""A TrainingJob, decoded."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.informers.job_record import read_job
from tests.controller.builders import job_document, placement_on


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
    assert record.size_placed(placement_on(("n1", 2), ("n2", 1))) == {"workers": "3", "gpus": "3 × 0.4"}


def version_of_a_job(status: dict[str, Any] | None = None, *, uid: str = "", **spec: Any) -> dict[str, Any]:
    document = job_document(status=status, **spec)
    written = {"manager": "cotenant", "fieldsV1": {"f:status": {}}}
    return document | {"metadata": document["metadata"] | {"managedFields": [written]} | ({"uid": uid} if uid else {})}


@pytest.mark.parametrize(
    ("document", "kept"),
    [
        pytest.param(version_of_a_job({"phase": "Running", "attempts": 1}), True, id="another status"),
        pytest.param(version_of_a_job(workers=3), False, id="another spec"),
        pytest.param(version_of_a_job(uid="another"), False, id="a namesake"),
        pytest.param(version_of_a_job({"attempts": -1}), True, id="a status that cannot be read"),
    ],
)
def test_a_spec_that_is_still_the_same_is_not_read_again_and_the_record_is_the_same(
    document: dict[str, Any], kept: bool
) -> None:
    seen = read_job(version_of_a_job())
    record = read_job(document, seen=seen)
    assert record == read_job(document)
    assert seen.job is not None
    assert (record.job is not None and record.job.spec is seen.job.spec) is kept


def test_who_wrote_which_field_is_not_kept() -> None:
    record = read_job(version_of_a_job())
    assert record.job is not None
    assert record.job.metadata.managed_fields == ()


def test_a_field_that_the_document_lacks_is_not_written_yet() -> None:
    record = read_job(job_document(status={"phase": "Pending", "ofANewerRelease": 1}))
    assert record.written == {"phase": "Pending"}
