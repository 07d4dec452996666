"""Nodes as an administrator sees them: what takes work, and why the others do not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.cli.administrators.gpu_shares import gpu_views
from cotenant.cli.administrators.health.diagnoses import SeenCluster, Severity
from cotenant.cli.administrators.health.runtime_failures import failing_nodes, runtime_failures
from cotenant.cli.administrators.nodes import lines, needs

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
WELL: dict[str, Any] = {
    "metadata": {"name": "n1"},
    "status": {
        "heartbeat": "2026-01-01T11:59:58Z", "node": "Ready", "summary": "2 × H100 80Gi", "health": "healthy",
        "isolation": "Hard", "driverVersion": "615.1", "toolkitVersion": "1.20.1",
        "gpus": [{"uuid": "GPU-a", "index": 0, "used": {"utilizationPercent": 0}}, {"uuid": "GPU-b", "index": 1}],
        "holders": [{"namespace": "red", "job": "a", "gpus": [{"uuid": "GPU-a", "memoryMiB": 1, "computeMilli": 500}]}],
    },
}  # fmt: skip
ILL: dict[str, Any] = {
    "metadata": {"name": "n0"},
    "status": {
        "heartbeat": "2026-01-01T11:55:00Z", "node": "Cordoned", "summary": "1 × H100 80Gi", "health": "1 ill: XID79",
        "gpus": [{"uuid": "GPU-c", "index": 0, "healthy": False, "health": "XID79"}],
        "conditions": [{"type": "MemoryIsolationLowered", "status": "True", "message": "was Hard"}],
    },
}  # fmt: skip


def test_every_node_is_a_line_and_what_is_the_matter_follows() -> None:
    assert "\n".join(lines([WELL, ILL], NOW, {}, wide=False)).splitlines() == [
        "NODE   STATE    GPUS            HELD   IDLE   ILL   JOBS   HEALTH         ISOLATION",
        "n0     Silent   1 × H100 80Gi   0      0      1     0      1 ill: XID79",
        "n1     Ready    2 × H100 80Gi   0.5    1      0     1      healthy        Hard",
        "n0: its agent has not been heard for 300 s",
        "n0: the Node is Cordoned",
        "n0: GPU 0 is not handed out: XID79",
        "n0: MemoryIsolationLowered: was Hard",
    ]


def test_a_node_whose_taint_keeps_jobs_away_takes_no_work_and_has_no_free_gpu() -> None:
    tainted = WELL | {"status": WELL["status"] | {"node": "Tainted"}}
    said = "\n".join(lines([tainted], NOW, {}, wide=False)).splitlines()
    assert said[1].split()[:2] == ["n1", "Tainted"]
    assert said[2:] == [
        "n1: the Node has a taint that jobs do not tolerate: none starts there (kubectl cotenant doctor names it)"
    ]
    assert [gpu.state for gpu in gpu_views([tainted])] == ["Tainted", "Tainted"]


def event(name: str, at: str, message: str) -> dict[str, Any]:
    return {"involvedObject": {"kind": "GPUNode", "name": name}, "lastTimestamp": at, "message": message}


EVENTS = [
    event("n1", "2026-01-01T11:56:50Z", "node n1 takes no new job for a while: it failed jobs of 3 tenants"),
    event("n1", "2026-01-01T11:50:00Z", "node n1 takes no new job for a while: it failed jobs of 2 tenants"),
    event("n0", "2026-01-01T11:44:59Z", "it is over"),
    {**event("n2", "", "of a reporter that writes eventTime alone"), "lastTimestamp": None},
]


def test_a_node_whose_container_runtime_fails_says_so_while_that_is_news() -> None:
    said = "\n".join(lines([WELL], NOW, failing_nodes(EVENTS, NOW), wide=False)).splitlines()
    assert said[2:] == [
        "n1: RuntimeFailing (3 min ago): node n1 takes no new job for a while: it failed jobs of 3 tenants"
    ]
    (found,) = runtime_failures(SeenCluster({"failingNodes": {"items": EVENTS}}, [], NOW))
    assert (found.severity, found.subject, found.message) == (Severity.WARNING, "node n1", said[2].removeprefix("n1: "))


def test_wide_has_versions_and_when_it_was_seen() -> None:
    (_, row) = "\n".join(lines([WELL], NOW, {}, wide=True)).splitlines()
    assert row.split("   ")[-3:] == ["615.1", "1.20.1", "2 s ago"] or row.endswith("2 s ago")


def test_a_cluster_without_gpus_says_so() -> None:
    assert list(lines([], NOW, {}, wide=False)) == ["There are no nodes with GPUs."]


def need(like: str, gpus: dict[str, int], nodes: int, starts: int, **more: Any) -> dict[str, Any]:
    status = {"gpus": gpus, "nodes": nodes, "starts": starts, "isLeast": True} | more
    return {"metadata": {"name": like}, "status": status}


def said(waiting: int, *kinds: dict[str, Any], untried: int = 0, **unhelped: int) -> str:
    status = {"waiting": waiting, "unhelped": unhelped, "untriedKinds": untried}
    return "\n".join(needs({"items": list(kinds), "status": status}))


def test_each_kind_of_node_has_a_line_with_how_many_more_are_needed() -> None:
    h100 = need("gpu-7", {"H100": 8}, 2, 4, zone="a")
    mixed = need("gpu-12", {"A100": 4, "L4": 2}, 70, 1, isLeast=False)
    assert said(7, h100, mixed, untried=1, QueueHeld=2).splitlines() == [
        "LIKE     GPUS                ZONE   MORE NODES   WOULD START",
        "gpu-7    8 × H100            a      2            4 of 7 jobs",
        "gpu-12   4 × A100 + 2 × L4          at most 70   1 of 7 jobs",
        "More nodes would not start: 2 jobs (QueueHeld).",
        "1 kind of nodes not tried: the time was over.",
        "Which jobs: kubectl cotenant whatif node gpu-7 add 2",
    ]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (said(0), "No job waits."),
        (said(1, QueueHeld=1), "More nodes would not start: 1 job (QueueHeld)."),
    ],
    ids=["nothing waits", "nodes are not what is missing"],
)
def test_if_nodes_help_nobody_the_reasons_are_said(answer: str, text: str) -> None:
    assert answer == text
