"""Nodes whose container runtime fails the jobs of several tenants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.api.resources.trainingjob_status import ExcludedNode, TrainingJobStatus
from cotenant.controller.cluster.nodes.runtime_failures import RuntimeFailures
from cotenant.controller.informers.job_record import JobId, JobRecord, read_job
from tests.controller.builders import T0, job_document

CUDA = "GPUsUnusable: cuInit: CUDA_ERROR_UNKNOWN"


def failed(
    namespace: str, reason: str = "RuntimeFailed: nvml error", until: float = T0 + 900, queue: str = "research"
) -> JobRecord:
    avoided = (ExcludedNode(node="n1", until=until, reason=reason),)
    record = replace(read_job(job_document()), queue_named=queue)
    return replace(record, id=JobId(namespace, "train", ""), status=TrainingJobStatus(excluded_nodes=avoided))


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([failed("red")], ""),
        ([failed("red"), failed("red")], ""),
        ([failed("red"), failed("blue", "Unschedulable: no")], ""),
        ([failed("red"), failed("blue", until=T0)], ""),
        ([failed("red", "OutOfcpu"), failed("blue", "OutOfcpu")], ""),
        ([failed("red"), failed("blue")], "its kubelet, its container runtime or CUDA failed jobs of 2 tenants"),
        (
            [failed("red", "UnexpectedAdmissionError"), failed("blue", "UnexpectedAdmissionError")],
            "its kubelet, its container runtime or CUDA failed jobs of 2 tenants",
        ),
        (
            [failed("red", CUDA), failed("blue", queue="sales")],
            "its kubelet, its container runtime or CUDA failed jobs of 2 tenants",
        ),
        ([failed("red", CUDA), failed("blue", CUDA)], ""),
    ],
    ids=["one job", "two jobs of one tenant", "two causes", "long ago", "it is full", "two tenants",
         "two tenants whose pods the kubelet refused", "CUDA fails, and the runtime",
         "one queue says of two namespaces that CUDA fails"],
)  # fmt: skip
def test_a_node_fails_once_two_tenants_agree(records: list[JobRecord], why: str) -> None:
    failures = RuntimeFailures()
    for record in records:
        failures.note(record)
    assert failures.changed(T0) == ({"n1"} if why else set())
    assert failures.why("n1") == why
    assert failures.nodes == ({"n1": why} if why else {})


def test_a_failing_node_is_tried_again_after_a_while() -> None:
    failures = RuntimeFailures()
    failures.note(failed("red", until=T0 + 10))
    failures.note(failed("blue"))
    assert [failures.changed(now) for now in (T0, T0 + 9, T0 + 10, T0 + 11)] == [{"n1"}, set(), {"n1"}, set()]
    assert failures.why("n1") == ""
