"""Nodes as an administrator sees them: what takes work, and why the others do not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cotenant.cli.administrators.nodes import lines

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
    assert "\n".join(lines([WELL, ILL], NOW, wide=False)).splitlines() == [
        "NODE   STATE    GPUS            HELD   IDLE   ILL   JOBS   HEALTH         ISOLATION",
        "n0     Silent   1 × H100 80Gi   0      0      1     0      1 ill: XID79",
        "n1     Ready    2 × H100 80Gi   0.5    1      0     1      healthy        Hard",
        "n0: its agent has not been heard for 300 s",
        "n0: the Node is Cordoned",
        "n0: GPU 0 is not handed out: XID79",
        "n0: MemoryIsolationLowered: was Hard",
    ]


def test_wide_has_versions_and_when_it_was_seen() -> None:
    (_, row) = "\n".join(lines([WELL], NOW, wide=True)).splitlines()
    assert row.split("   ")[-3:] == ["615.1", "1.20.1", "2 s ago"] or row.endswith("2 s ago")


def test_a_cluster_without_gpus_says_so() -> None:
    assert list(lines([], NOW, wide=False)) == ["There are no nodes with GPUs."]
