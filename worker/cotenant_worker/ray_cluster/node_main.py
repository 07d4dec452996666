"""This pod's Ray node, in as few processes and waits as Ray allows.

`python -m cotenant_worker.ray_cluster.node_main WHAT FLAG…`

`node` starts GCS (in rank 0's pod) and raylet through Ray's own `Node`, without three things that `ray start` adds: a
dashboard, its agent and an agent for runtime environments. Each is a Python process that imports most of Ray, the
raylet joins only after its agents have come up, and a job of ours uses none of them. In rank 0's pod the same
process then is the driver, so Ray is imported once there; the worker that becomes the pod's actor is started through
`rayworker`. How Ray is made to do with less is in `leanray`. `shipped` is `ray start` itself: for mode `rayTrain`,
whose nodes are drained, and for a Ray that is put together differently.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from cotenant_worker.messaging.json_lines import mark_phase
from cotenant_worker.ray_cluster.lazy_imports import import_less
from cotenant_worker.ray_cluster.lean_node import AGENTS, UNUSED_BY_TRAIN, fits, make_lean
from cotenant_worker.ray_cluster.waits import await_head

_ABSENT = "ray.dashboard.optional_deps"


def options(flags: list[str]) -> argparse.Namespace:
    """The flags of `raynode.node_flags`; an unknown one is an error, as it is for Ray."""
    parser = argparse.ArgumentParser()
    for switch in ("head", "no-monitor", "block", "disable-usage-stats"):
        parser.add_argument(f"--{switch}", action="store_true")
    for number in ("port", "num-cpus", "num-gpus", "object-store-memory", "node-manager-port", "object-manager-port"):
        parser.add_argument(f"--{number}", type=int)
    for number in ("runtime-env-agent-port", "min-worker-port", "max-worker-port"):
        parser.add_argument(f"--{number}", type=int)
    parser.add_argument("--resources", type=json.loads)
    for text in ("address", "node-ip-address", "include-dashboard", "include-log-monitor"):
        parser.add_argument(f"--{text}")
    return parser.parse_args(flags)


def start_node(chosen: argparse.Namespace) -> Any:
    """Ray's `Node` with its processes running, or None when this Ray does not have the parts that are needed."""
    from ray._private import node, services
    from ray._private.parameter import RayParams

    mark_phase("ray imported")
    params: dict[str, Any] = {
        "node_ip_address": chosen.node_ip_address,
        "node_name": chosen.node_ip_address,
        "num_cpus": chosen.num_cpus,
        "num_gpus": chosen.num_gpus,
        "resources": chosen.resources,
        "object_store_memory": chosen.object_store_memory,
        "node_manager_port": chosen.node_manager_port,
        "object_manager_port": chosen.object_manager_port,
        "min_worker_port": chosen.min_worker_port,
        "max_worker_port": chosen.max_worker_port,
        "include_log_monitor": False,
        "include_dashboard": False,
        "no_monitor": True,
    }
    params |= {"gcs_server_port": chosen.port} if chosen.head else {"gcs_address": chosen.address}
    if not fits(node, services, RayParams, params):
        return None
    if not chosen.head:
        await_head(chosen.address)
        mark_phase("head answers")
    make_lean(node, services, (chosen.node_ip_address, chosen.port), tuple(AGENTS), own_workers=True)
    return node.Node(RayParams(**params), head=chosen.head, shutdown_at_exit=False, spawn_reaper=True)


class Shipped:
    """`ray start` as a child, with the one method of Ray's `Node` that is used here."""

    def __init__(self, flags: list[str]) -> None:
        self._process = subprocess.Popen([sys.executable, "-m", __spec__.name, "shipped", *flags])

    def dead_processes(self) -> list[tuple[str, Any]]:
        return [("ray start", self._process)] if self._process.poll() is not None else []


def run_shipped(flags: list[str]) -> None:
    from ray._private import node, services
    from ray._private.parameter import RayParams
    from ray.scripts.scripts import main as ray_start

    chosen = options(flags)
    if fits(node, services, RayParams, {}):
        make_lean(node, services, (chosen.node_ip_address, chosen.port), UNUSED_BY_TRAIN, own_workers=False)
    if not chosen.head:
        await_head(chosen.address)
    sys.argv = ["ray", "start", *flags]
    sys.exit(ray_start())


def run_node(flags: list[str]) -> None:
    """Until a process of Ray ends (exit code 1, the last line says which), or in rank 0's pod until the driver does."""
    import_less()
    # Ray imports all that its dashboard could need, only to see whether it is there.
    sys.modules[_ABSENT] = None  # type: ignore[assignment]
    chosen = options(flags)
    node = start_node(chosen) or Shipped(flags)
    mark_phase("node joined")
    if chosen.head:
        from cotenant_worker.ray_cluster import driver

        driver.main(lambda: gone(node))
    while not (why := gone(node)):
        time.sleep(0.2)
    print(f"cotenant: {why}", flush=True)  # noqa: T201 - read by the launcher
    os._exit(1)


def gone(node: Any) -> str:
    """Which of the node's processes has ended, and how; empty while all live."""
    dead = node.dead_processes()
    if not dead:
        return ""
    name, code = dead[0][0], dead[0][1].returncode
    return f"Ray's {name} was killed by {signal.Signals(-code).name}" if code < 0 else f"Ray's {name} ended with {code}"


if __name__ == "__main__":
    # Ray would open its client server's port where an image has grpcio; it looks for grpc to decide.
    sys.modules["grpc"] = None  # type: ignore[assignment]
    {"node": run_node, "shipped": run_shipped}[sys.argv[1]](sys.argv[2:])
