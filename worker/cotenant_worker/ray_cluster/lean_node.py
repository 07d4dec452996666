"""Ray's node with fewer processes: no dashboard, idle replacements for its agents, a worker that imports less.

Parts of Ray are replaced in the process that starts a node. `supports` first checks that all of them exist.
"""

from __future__ import annotations

import inspect
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from cotenant_worker.ray_cluster import worker_main
from cotenant_worker.ray_cluster.phases import mark_phase
from cotenant_worker.ray_cluster.waits import await_port, raylet, retry_get_node

AGENTS = {
    "--dashboard_agent_command=": ("METRICS_AGENT", "METRICS_EXPORT", "DASHBOARD_AGENT_LISTEN"),
    "--runtime_env_agent_command=": ("RUNTIME_ENV_AGENT",),
}
"""Flag of the raylet that starts an agent → the ports that the agent would write down."""
_WORKER = "--python_worker_command="
UNUSED_BY_TRAIN = ("--dashboard_agent_command=",)
"""Ray Train sets its workers' environment, which is the other agent's work."""
_IDLE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("idle_agent.py"))]
_GCS_TIMEOUT_S = 60.0


def supports(node: Any, services: Any, params: Any, wanted: dict[str, Any]) -> bool:
    """True if this Ray has every part that is used or replaced here. Checked before anything starts."""
    core = raylet()
    source = inspect.getsource(services.start_raylet)
    return (
        hasattr(node.Node, "start_api_server")
        and hasattr(node.Node, "dead_processes")
        and "command" in inspect.signature(services.start_ray_process).parameters
        and wanted.keys() <= inspect.signature(params).parameters.keys()
        and all(flag in source for flag in (*AGENTS, _WORKER))
        and Path(worker_main.ray_worker_path()).is_file()
        and all(hasattr(core, f"{port}_PORT_NAME") for ports in AGENTS.values() for port in ports)
        and hasattr(core, "persist_port")
        and hasattr(services, "get_node")
    )


def patch_ray(node: Any, services: Any, gcs: tuple[str, int], agents: tuple[str, ...], *, own_workers: bool) -> None:
    """Make this process start Ray without the dashboard and these agents, and wait long enough."""
    node.Node.start_api_server = lambda *_args, **_kwargs: None
    services.start_ray_process = lean_start_process(services.start_ray_process, gcs, agents, own_workers=own_workers)
    services.get_node = retry_get_node(services.get_node)


def lean_start_process(start: Any, gcs: tuple[str, int], agents: tuple[str, ...], *, own_workers: bool) -> Any:
    """Ray's way to start a process, with its agents replaced and without its waits of whole seconds for the GCS.

    `own_workers` is true if no code of the tenant runs in Ray's workers, which then start with less, too.
    """

    def start_ray_process(command: list[str], *args: Any, **kwargs: Any) -> Any:
        found = dict(part.lstrip("-").split("=", 1) for part in command if "=" in part)
        if "dashboard_agent_command" in found:
            _persist_no_ports(found["session_dir"], found["node_id"], agents)
            idle = subprocess.list2cmdline(_IDLE)
            command = [next((flag + idle for flag in agents if part.startswith(flag)), part) for part in command]
            if own_workers:
                command = [_with_own_worker(part) if part.startswith(_WORKER) else part for part in command]
        process = start(command, *args, **kwargs)
        if command[0].endswith("gcs_server"):
            await_port(*gcs, _GCS_TIMEOUT_S)
            mark_phase("GCS answers")
        return process

    return start_ray_process


def _with_own_worker(part: str) -> str:
    """The raylet's flag with the command of a worker, in which our program replaces Ray's."""
    arguments = [
        worker_main.__file__ if argument.endswith(f"/{worker_main.RAY_WORKER}") else argument
        for argument in shlex.split(part)
    ]
    return arguments[0] + " " + subprocess.list2cmdline(arguments[1:])


def _persist_no_ports(session: str, node: str, agents: tuple[str, ...]) -> None:
    """Write down the ports that the raylet waits for. -1 is Ray's own value for an agent without a port."""
    core = raylet()
    for port in (port for agent in agents for port in AGENTS[agent]):
        core.persist_port(session, node, getattr(core, f"{port}_PORT_NAME"), -1)
