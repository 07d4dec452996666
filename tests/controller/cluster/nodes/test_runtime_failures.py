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
) -> tuple[JobRecord, str]:
    """A job that avoids a node, and the queue that serves it."""
    avoided = (ExcludedNode(node="n1", until=until, reason=reason),)
    record = replace(read_job(job_document()), id=JobId(namespace, "train", ""))
    return replace(record, status=TrainingJobStatus(excluded_nodes=avoided)), queue


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
        ([failed("red", CUDA), failed("blue", CUDA, queue="")], ""),
        ([failed("red", queue=""), failed("blue", queue="")],
         "its kubelet, its container runtime or CUDA failed jobs of 2 tenants"),
    ],
    ids=["one job", "two jobs of one tenant", "two causes", "long ago", "it is full", "two tenants",
         "two tenants whose pods the kubelet refused", "CUDA fails, and the runtime",
         "one queue says of two namespaces that CUDA fails",
         "CUDA fails a job that names a queue which does not serve it",
         "the kubelet says it of jobs that no queue serves"],
)  # fmt: skip
def test_a_node_fails_once_two_tenants_agree(records: list[tuple[JobRecord, str]], why: str) -> None:
    failures = RuntimeFailures()
    for record, queue in records:
        failures.note(record, queue)
    assert failures.changed(T0) == ({"n1"} if why else set())
    assert failures.why("n1") == why
    assert failures.nodes == ({"n1": why} if why else {})


def test_a_failing_node_is_tried_again_after_a_while() -> None:
    failures = RuntimeFailures()
    failures.note(*failed("red", until=T0 + 10))
    failures.note(*failed("blue"))
    assert [failures.changed(now) for now in (T0, T0 + 9, T0 + 10, T0 + 11)] == [{"n1"}, set(), {"n1"}, set()]
    assert failures.why("n1") == ""
