"""This pod's Ray node, in as few processes and waits as Ray allows: `python -m cotenant_worker.raystart WHAT FLAG…`.

`node` starts GCS (in rank 0's pod) and raylet through Ray's own `Node`, without three things that `ray start` adds: a
dashboard, its agent and an agent for runtime environments. Each is a Python process that imports most of Ray, the
raylet joins only after its agents have come up, and a job of ours uses none of them. In rank 0's pod the same
process then is the driver, so Ray is imported once there; the worker that becomes the pod's actor is started through
`rayworker`. `shipped` is `ray start` itself: for mode `rayTrain`, whose
nodes are drained, and for a Ray that is put together differently.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cotenant.contract import Contract
from cotenant_worker import layout, rayworker
from cotenant_worker.channel import Line
from cotenant_worker.rayimport import import_less

_AGENTS = {
    "--dashboard_agent_command=": ("METRICS_AGENT", "METRICS_EXPORT", "DASHBOARD_AGENT_LISTEN"),
    "--runtime_env_agent_command=": ("RUNTIME_ENV_AGENT",),
}
"""Flag of the raylet that starts an agent → the ports that the agent would write down."""
_WORKER = "--python_worker_command="
_UNUSED_BY_TRAIN = ("--dashboard_agent_command=",)
"""Ray Train sets its workers' environment, which is the other agent's work."""
_IDLE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("idle.py"))]
_ABSENT = "ray.dashboard.optional_deps"
_STEP_S = 0.02
_GCS_S = 60.0


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

    _mark("ray imported")
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
    if not _fits(node, services, RayParams, params):
        return None
    if not chosen.head:
        _await_head(chosen.address)
        _mark("head answers")
    _make_lean(node, services, (chosen.node_ip_address, chosen.port), tuple(_AGENTS), own_workers=True)
    return node.Node(RayParams(**params), head=chosen.head, shutdown_at_exit=False, spawn_reaper=True)


def _fits(node: Any, services: Any, params: Any, wanted: dict[str, Any]) -> bool:
    """This Ray has every part that is used or replaced here; looked at before anything has started."""
    raylet = _raylet()
    source = inspect.getsource(services.start_raylet)
    return (
        hasattr(node.Node, "start_api_server")
        and hasattr(node.Node, "dead_processes")
        and "command" in inspect.signature(services.start_ray_process).parameters
        and wanted.keys() <= inspect.signature(params).parameters.keys()
        and all(flag in source for flag in (*_AGENTS, _WORKER))
        and Path(rayworker.program()).is_file()
        and all(hasattr(raylet, f"{port}_PORT_NAME") for ports in _AGENTS.values() for port in ports)
        and hasattr(raylet, "persist_port")
        and hasattr(services, "get_node")
    )


def _raylet() -> Any:
    """Ray's compiled core, which has no types."""
    import ray._raylet

    return ray._raylet


def _make_lean(node: Any, services: Any, gcs: tuple[str, int], agents: tuple[str, ...], *, own_workers: bool) -> None:
    """From now on this process starts Ray without the dashboard and without these agents, and waits long enough."""
    node.Node.start_api_server = lambda *_args, **_kwargs: None
    services.start_ray_process = _leaner(services.start_ray_process, gcs, agents, own_workers=own_workers)
    services.get_node = _patient(services.get_node)


def _patient(get_node: Any) -> Any:
    """Ray gives a raylet 30 s to become known; a busy machine needs more, and the job says how much it has."""

    def wait(*args: Any, **kwargs: Any) -> Any:
        end = time.monotonic() + _patience_s()
        while True:
            try:
                return get_node(*args, **kwargs)
            except RuntimeError:
                if time.monotonic() > end:
                    raise
            time.sleep(5 * _STEP_S)

    return wait


def _patience_s() -> int:
    return Contract.from_environment(os.environ).rendezvous_timeout_s


def _leaner(start: Any, gcs: tuple[str, int], agents: tuple[str, ...], *, own_workers: bool) -> Any:
    """Ray's way to start a process, with its agents replaced and without its whole seconds of waiting for the GCS.

    `own_workers`: no code of the tenant runs in Ray's workers, which may then be started with less, too.
    """

    def start_ray_process(command: list[str], *args: Any, **kwargs: Any) -> Any:
        found = dict(part.lstrip("-").split("=", 1) for part in command if "=" in part)
        if "dashboard_agent_command" in found:
            _without_ports(found["session_dir"], found["node_id"], agents)
            idle = subprocess.list2cmdline(_IDLE)
            command = [next((flag + idle for flag in agents if part.startswith(flag)), part) for part in command]
            if own_workers:
                command = [_leaner_worker(part) if part.startswith(_WORKER) else part for part in command]
        process = start(command, *args, **kwargs)
        if command[0].endswith("gcs_server"):
            _await_port(*gcs, _GCS_S)
            _mark("GCS answers")
        return process

    return start_ray_process


def _leaner_worker(part: str) -> str:
    """The raylet's flag that says how a worker is started, with our program in the place of Ray's."""
    words = [rayworker.__file__ if word.endswith(f"/{rayworker.NAME}") else word for word in shlex.split(part)]
    return words[0] + " " + subprocess.list2cmdline(words[1:])


def _without_ports(session: str, node: str, agents: tuple[str, ...]) -> None:
    """The raylet waits until its agents have written down their ports; -1 is Ray's own word for "has none"."""
    raylet = _raylet()
    for port in (port for agent in agents for port in _AGENTS[agent]):
        raylet.persist_port(session, node, getattr(raylet, f"{port}_PORT_NAME"), -1)


def _await_port(host: str, port: int, patience_s: float) -> bool:
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0):
            return True
        time.sleep(_STEP_S)
    return False


def _await_head(address: str) -> None:
    """Until the head's raylet is known to its GCS. Ray waits for both in steps of seconds, so do not let it wait.

    TimeoutError after the job's rendezvous timeout: the head's pod may still be pulling its image.
    """
    patience_s = _patience_s()
    end = time.monotonic() + patience_s
    host, _, port = address.rpartition(":")
    if _await_port(host, int(port), patience_s):
        client = _raylet().GcsClient(address=address)
        while time.monotonic() < end:
            if client.get_all_node_info(timeout=5):
                return
            time.sleep(_STEP_S)
    raise TimeoutError(f"nothing answered at {address} within {patience_s} s")


def _mark(what: str) -> None:
    """For the launcher's table of start-up phases."""
    with contextlib.suppress(OSError):
        line = Line(layout.socket_path())
        line.send({"op": "hello", "role": "node"})
        line.send({"op": "mark", "what": what})
        line.close()


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
    if _fits(node, services, RayParams, {}):
        _make_lean(node, services, (chosen.node_ip_address, chosen.port), _UNUSED_BY_TRAIN, own_workers=False)
    if not chosen.head:
        _await_head(chosen.address)
    sys.argv = ["ray", "start", *flags]
    sys.exit(ray_start())


def run_node(flags: list[str]) -> None:
    """Until a process of Ray ends (exit code 1, the last line says which), or in rank 0's pod until the driver does."""
    import_less()
    # Ray imports all that its dashboard could need, only to see whether it is there.
    sys.modules[_ABSENT] = None  # type: ignore[assignment]
    chosen = options(flags)
    node = start_node(chosen) or Shipped(flags)
    _mark("node joined")
    if chosen.head:
        from cotenant_worker import driver

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
