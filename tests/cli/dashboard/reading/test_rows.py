"""Rows out of documents, whatever stands in these."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.dashboard.reading.progress_trace import POINTS_MAX, ProgressTraces
from cotenant.dashboard.reading.rows import JobRow, gpu_node_row, job_row
from tests.cli.dashboard.played_cluster import NOW, at, gpu_node, job, share

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda one: st.lists(one) | st.dictionaries(st.text(), one),
)
FIELDS = (
    "pending",
    "progress",
    "placement",
    "usage",
    "eviction",
    "lastExit",
    "startedAt",
    "restarts",
    "gpus",
    "holders",
)


def test_a_row_has_what_pages_show() -> None:
    placement = {"nodes": [{"node": "n", "ranks": [share("g", 1, 8, 500)]}], "admittedAt": at(-5)}
    row = job_row(
        job("red", "a", "Running", placement=placement, startedAt=at(-4), restarts=2, usage={"gpuSeconds": 7})
    )
    started = datetime.fromisoformat(at(-4)).astimezone(UTC).timestamp()
    assert (row.key, row.queue, row.milli, row.started, row.restarts, row.gpu_ms) == (
        "red/a",
        "red",
        500,
        started,
        2,
        7000,
    )
    assert row.expected_s == 7200
    assert row.shares[0].node == "n"


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_a_document_that_cannot_be_read_is_a_row_all_the_same(status: dict[str, Any]) -> None:
    document = {"metadata": {"namespace": "red", "name": "a"}, "spec": {}, "status": status}
    assert job_row(document).key == "red/a"
    assert gpu_node_row({"metadata": {"name": "n"}, "status": status}).name == "n"


def test_what_cannot_be_read_says_so() -> None:
    broken = {"metadata": {"namespace": "red", "name": "a"}, "status": {"placement": {"nodes": [{"node": "n"}]}}}
    assert job_row(broken) == JobRow(namespace="red", name="a", reason="Unreadable")


def test_a_node_has_its_gpus_and_who_holds_them() -> None:
    holder = {"namespace": "red", "job": "a", "gpus": [{"uuid": "GPU-0-1", "memoryMiB": 5, "computeMilli": 100}]}
    row = gpu_node_row(gpu_node(0, 2, holders=[holder]))
    assert [gpu.uuid for gpu in row.gpus] == ["GPU-0-0", "GPU-0-1"]
    assert [(hold.uuid, hold.job, hold.milli) for hold in row.holds] == [("GPU-0-1", "a", 100)]


@pytest.mark.parametrize(
    ("after_s", "status", "state"),
    [
        (30, {}, "Ready"),
        (90, {}, "Silent"),
        (90, {"heartbeatSeconds": 60}, "Ready"),
        (0, {"heartbeat": None}, "Silent"),
        (90, {"strangers": [{}]}, "Unreadable"),
    ],
)
def test_a_node_whose_agent_is_not_heard_is_silent(after_s: float, status: dict[str, Any], state: str) -> None:
    assert gpu_node_row(gpu_node(0, 1, **status)).at(NOW.timestamp() + after_s).state == state


def test_a_node_whose_clock_is_wrong_is_heard_by_the_api_servers() -> None:
    node = gpu_node(0, 1, heartbeat="2020-01-01T00:00:00Z")
    stored = {"time": NOW.isoformat(), "subresource": "status"}
    row = gpu_node_row(node | {"metadata": node["metadata"] | {"managedFields": [stored]}})
    assert row.at(NOW.timestamp() + 30).state == "Ready"


def test_how_busy_a_simulated_gpu_is_was_not_measured() -> None:
    document = gpu_node(0, 1)
    document["status"]["gpus"][0]["used"] = {"utilizationPercent": 0}
    real, simulated = (
        gpu_node_row(document | {"status": document["status"] | {"simulated": is_simulated}})
        for is_simulated in (False, True)
    )
    assert (real.gpus[0].utilization, simulated.gpus[0].utilization) == (0, None)


def test_the_course_of_a_job_is_what_was_seen_in_order_and_bounded() -> None:
    traces = ProgressTraces()
    for minute in (1, 2, 2, 1, 3):
        traces.note(job("red", "a", "Running", progress={"step": minute * 10, "updatedAt": at(minute)}))
    assert [step for _, step in traces.points("None")] == [10, 20, 30]
    for minute in range(4, 2 * POINTS_MAX):
        traces.note(job("red", "a", "Running", progress={"step": minute, "updatedAt": at(minute)}))
    assert len(traces.points("None")) == POINTS_MAX
