"""What `cotenant local status` shows of a cluster: deaths with their last lines, nodes that are cut off or stopped."""

import time
from typing import Any

import pytest

from cotenant_local.cluster import reports


def component(**changes: Any) -> dict[str, Any]:
    return {"pid": 7, "stopped": False, "restarts": 0, "since": time.time() - 90, "lastDeath": None, **changes}


def status(**changes: Any) -> dict[str, Any]:
    node = {"power": "on", "isolated": False, "address": "10.89.0.10", "components": {"kubelet": component()}}
    whole = {
        "name": "demo",
        "ready": True,
        "since": time.time() - 3 * 3600,
        "apiPort": 40000,
        "forwards": [],
        "components": {"etcd": component(), "node-1": component()},
        "nodes": {"node-1": node},
    }
    return {**whole, **changes}


def test_a_cluster_that_is_well_is_shown_in_four_lines() -> None:
    assert reports.as_text(status()).splitlines() == [
        "cluster demo: ready, up 3 h, API server at https://127.0.0.1:40000",
        "  etcd                     up 90 s",
        "node node-1 (10.89.0.10): on",
        "  kubelet                  up 90 s",
    ]


def test_a_death_is_shown_with_the_last_lines_of_the_log() -> None:
    death = {"service": "etcd", "how": "signal 9 (SIGKILL)", "last_lines": "a\nb\nc\nd", "at": time.time() - 300}
    text = reports.as_text(status(components={"etcd": component(restarts=2, lastDeath=death)}))
    assert "  etcd                     up 90 s, restarted 2×" in text
    assert "    last death 5 min ago: signal 9 (SIGKILL); its log ended:\n      b\n      c\n      d" in text
    assert "      a\n" not in text


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"isolated": True}, "node node-1 (10.89.0.10): on, cut off from the API server"),
        ({"stopped": True}, "node node-1 (10.89.0.10): its first process is stopped by a signal"),
        ({"power": "frozen"}, "node node-1 (10.89.0.10): frozen"),
    ],
)
def test_what_was_done_to_a_node_is_shown(change: dict[str, Any], shown: str) -> None:
    node = {**status()["nodes"]["node-1"], **change}
    assert shown in reports.as_text(status(nodes={"node-1": node})).splitlines()


def test_missing_cgroups_and_ports_from_outside_are_shown() -> None:
    text = reports.as_text(status(limitsEnforced=False, forwards=[["default/web:80", 40001]]))
    assert "containers' limits of CPU and memory are not enforced" in text
    assert "  http://127.0.0.1:40001 → default/web:80" in text
