"""A TrainingJob always fits into etcd: the largest legal spec, the largest status that is written, and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cotenant.api.resources.job_spec.runtime import MAX_PROGRAM_CHARS
from tests.live.api.conftest import GROUP
from tests.support.largest_job import largest_job, overfull_status, stored_bytes

if TYPE_CHECKING:
    from tests.live.api.conftest import Server

from tests.api.schema.test_object_sizes import ANNOTATIONS_BYTES, MIB


@pytest.mark.cluster
def test_the_api_server_takes_the_largest_spec_and_refuses_one_character_more(server: Server) -> None:
    document = largest_job()
    answer = server.dry_run(document, "TrainingJob")
    assert (answer.status, answer.message) == (201, "")
    document["spec"]["runtime"]["command"][1] += "p"
    answer = server.dry_run(document, "TrainingJob")
    assert (answer.status, "spec.runtime" in answer.message) == (422, True)
    assert f"more than {MAX_PROGRAM_CHARS} characters together" in answer.message


@pytest.mark.cluster
def test_the_largest_job_that_there_is_can_be_written_evicted_and_finished_on_the_api_server(server: Server) -> None:
    """The job has the largest annotations, and two managers own all of its spec."""
    document = largest_job()
    document["metadata"]["annotations"] = {"note": "a" * (ANNOTATIONS_BYTES - 4)}
    path = f"{GROUP}/namespaces/default/trainingjobs/{document['metadata']['name']}"
    try:
        for manager in ("one", "two"):
            applied = server.call(
                "PATCH", f"{path}?fieldManager={manager}", document, kind="application/apply-patch+yaml"
            )
            assert applied.status in {200, 201}, applied.message
        full = overfull_status().to_document()
        for status in (full, full | {"phase": "Pending", "placement": None}, full, full | {"phase": "Succeeded"}):
            answer = server.call("PATCH", f"{path}/status", {"status": status}, kind="application/merge-patch+json")
            assert (answer.status, answer.body["status"]["phase"]) == (200, status["phase"]), answer.message
        assert stored_bytes(answer.body) > MIB
    finally:
        assert server.call("DELETE", path).status == 200
