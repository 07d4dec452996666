"""This pod's Ray node, in as few processes and waits as Ray allows: `python -m … node_main node|ray-start FLAG…`.

`node` starts GCS (in rank 0's pod) and raylet through Ray's own `Node`, without three things that `ray start` adds: a
dashboard, its agent and an agent for runtime environments. Each is a Python process that imports most of Ray, the
raylet joins only after its agents are up, and no job needs them. In rank 0's pod the same process then becomes the
driver, so Ray is imported once there. The worker that becomes the pod's actor is started through `worker_main`.
`lean_node` makes Ray start less. `ray-start` is `ray start` itself: for mode `rayTrain`, whose nodes are drained, and
for a Ray whose parts differ.
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

from cotenant_worker.host.process_title import show_as_ours
from cotenant_worker.ray_cluster.lazy_imports import install_lazy_imports
from cotenant_worker.ray_cluster.lean_node import AGENTS, UNUSED_BY_TRAIN, patch_ray, supports
from cotenant_worker.ray_cluster.phases import mark_phase
from cotenant_worker.ray_cluster.waits import await_head

_DASHBOARD_DEPS = "ray.dashboard.optional_deps"


def parse_flags(flags: list[str]) -> argparse.Namespace:
    """Parse the flags of `start_command`. An unknown flag is an error, as it is for Ray."""
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


def start_node(flags: argparse.Namespace) -> Any:
    """Ray's `Node` with its processes running, or None if this Ray lacks the needed parts."""
    from ray._private import node, services
    from ray._private.parameter import RayParams

    mark_phase("ray imported")
    params: dict[str, Any] = {
        "node_ip_address": flags.node_ip_address,
        "node_name": flags.node_ip_address,
        "num_cpus": flags.num_cpus,
        "num_gpus": flags.num_gpus,
        "resources": flags.resources,
        "object_store_memory": flags.object_store_memory,
        "node_manager_port": flags.node_manager_port,
        "object_manager_port": flags.object_manager_port,
        "min_worker_port": flags.min_worker_port,
        "max_worker_port": flags.max_worker_port,
        "include_log_monitor": False,
        "include_dashboard": False,
        "no_monitor": True,
    }
    params |= {"gcs_server_port": flags.port} if flags.head else {"gcs_address": flags.address}
    if not supports(node, services, RayParams, params):
        return None
    if not flags.head:
        await_head(flags.address)
        mark_phase("head answers")
    patch_ray(node, services, (flags.node_ip_address, flags.port), tuple(AGENTS), own_workers=True)
    return node.Node(RayParams(**params), head=flags.head, shutdown_at_exit=False, spawn_reaper=True)


class RayStart:
    """`ray start` as a child, with the one method of Ray's `Node` that is used here."""

    def __init__(self, flags: list[str]) -> None:
        self._process = subprocess.Popen([sys.executable, "-m", __spec__.name, "ray-start", *flags])

    def dead_processes(self) -> list[tuple[str, Any]]:
        return [("ray start", self._process)] if self._process.poll() is not None else []


def run_ray_start(flags: list[str]) -> None:
    from ray._private import node, services
    from ray._private.parameter import RayParams
    from ray.scripts.scripts import main as ray_start

    chosen = parse_flags(flags)
    if supports(node, services, RayParams, {}):
        patch_ray(node, services, (chosen.node_ip_address, chosen.port), UNUSED_BY_TRAIN, own_workers=False)
    if not chosen.head:
        await_head(chosen.address)
    sys.argv = ["ray", "start", *flags]
    sys.exit(ray_start())


def run_node(flags: list[str]) -> None:
    """Run until a process of Ray ends (exit code 1, the last line names it), or in rank 0's pod the driver."""
    install_lazy_imports()
    # Ray imports all that its dashboard could need, only to see whether it is there.
    sys.modules[_DASHBOARD_DEPS] = None  # type: ignore[assignment]
    chosen = parse_flags(flags)
    node = start_node(chosen) or RayStart(flags)
    mark_phase("node joined")
    if chosen.head:
        from cotenant_worker.ray_cluster import driver

        driver.main(lambda: dead_process(node))
    while not (why := dead_process(node)):
        time.sleep(0.2)
    print(f"cotenant: {why}", flush=True)  # noqa: T201 - read by the launcher
    os._exit(1)


def dead_process(node: Any) -> str:
    """The process of the node that has ended, and how; empty while all live."""
    dead = node.dead_processes()
    if not dead:
        return ""
    name, code = dead[0][0], dead[0][1].returncode
    return f"Ray's {name} was killed by {signal.Signals(-code).name}" if code < 0 else f"Ray's {name} ended with {code}"


if __name__ == "__main__":
    show_as_ours("cotenant-ray")
    # Ray would open its client server's port where an image has grpcio; it looks for grpc to decide.
    sys.modules["grpc"] = None  # type: ignore[assignment]
    {"node": run_node, "ray-start": run_ray_start}[sys.argv[1]](sys.argv[2:])
