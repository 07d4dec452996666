"""A pod's Ray node: the flags that both sides know, the parts of Ray that are replaced, the process that ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cotenant_worker.ray_cluster import node_main
from cotenant_worker.ray_cluster.node_command import start_command
from tests.support.pod_sandbox import contract


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("mode", ["command", "rayTrain"])
def test_every_flag_that_a_pod_gets_is_understood(node: int, mode: str) -> None:
    job = contract([1, 1], command=("x",), mode=mode, node_rank=node)
    command = start_command(job, "python", ip="10.0.0.2", head_address="10.0.0.1", cpus=4)
    assert command[:5] == [
        "python",
        "-P",
        "-m",
        "cotenant_worker.ray_cluster.node_main",
        "ray-start" if mode == "rayTrain" else "node",
    ]
    chosen = node_main.parse_flags(command[5:])
    assert (chosen.head, chosen.resources, chosen.node_ip_address) == (node == 0, {f"w{node}": 1}, "10.0.0.2")
    assert (chosen.port, chosen.address) == ((22379, None) if node == 0 else (None, "10.0.0.1:22379"))


@pytest.mark.parametrize(
    ("dead", "want"),
    [
        pytest.param([], "", id="all live"),
        pytest.param([("raylet", -9)], "Ray's raylet was killed by SIGKILL", id="killed"),
        pytest.param([("gcs_server", 1), ("raylet", 0)], "Ray's gcs_server ended with 1", id="the first one"),
    ],
)
def test_the_process_that_ended_a_node_is_named(dead: list[tuple[str, int]], want: str) -> None:
    found = [(name, SimpleNamespace(returncode=code)) for name, code in dead]
    assert node_main.dead_process(SimpleNamespace(dead_processes=lambda: found)) == want
