"""Other clusters as an administrator sees them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cotenant.cli.administrators.clusters import lines

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
WEST: dict[str, Any] = {
    "metadata": {"name": "west"},
    "status": {
        "reachable": "True", "message": "the cluster answers", "jobs": 3, "running": 2,
        "lastSeen": "2026-01-01T11:59:30Z", "server": "https://west:6443",
    },
}  # fmt: skip
EAST: dict[str, Any] = {
    "metadata": {"name": "east"},
    "status": {"reachable": "False", "message": "there is no Secret east", "lastSeen": "2026-01-01T11:30:00Z"},
}


def test_every_cluster_is_a_line_and_what_is_wrong_follows() -> None:
    new = {"metadata": {"name": "new"}}
    assert "\n".join(lines([WEST, EAST, new], NOW)).splitlines() == [
        "CLUSTER   REACHABLE   JOBS   RUNNING   SEEN         SERVER",
        "east      False       0      0         30 min ago",
        "new       Unknown     0      0         never",
        "west      True        3      2         now          https://west:6443",
        "east: there is no Secret east",
        "new: the operator has not looked at it yet",
    ]


def test_without_remote_clusters_it_says_so() -> None:
    assert list(lines([], NOW)) == ["There is no RemoteCluster."]
