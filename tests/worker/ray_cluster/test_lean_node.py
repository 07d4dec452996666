"""The parts of Ray that are replaced: its agents idle, its workers import less."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from cotenant_worker.ray_cluster import lean_node, node_main, worker_main


def test_the_installed_ray_can_be_started_without_its_agents() -> None:
    """Otherwise every start would quietly take the long way."""
    from ray._private import node, services
    from ray._private.parameter import RayParams

    assert lean_node.supports(node, services, RayParams, {"num_cpus": 1, "gcs_address": "x", "no_monitor": True})
    assert not lean_node.supports(node, services, RayParams, {"a_parameter_that_is_not_there": 1})


def test_the_raylet_gets_processes_that_do_nothing_and_ports_that_say_none(tmp_path: Path) -> None:
    started: list[Any] = []
    start = lean_node.lean_start_process(
        lambda command, *_: started.append(command), ("127.0.0.1", 1), tuple(lean_node.AGENTS), own_workers=True
    )
    start(
        [
            *("raylet", f"--session_dir={tmp_path}", f"--node_id={'ab' * 28}"),
            *("--dashboard_agent_command=python agent.py --x=1", "--runtime_env_agent_command=python main.py"),
            '--python_worker_command=python setup_worker.py "/a b/workers/default_worker.py" --x=1 PLACE',
        ],
        "raylet",
    )
    start(["log_monitor", "--x"], "log_monitor")
    idle = subprocess.list2cmdline(
        [sys.executable, "-I", "-S", str(Path(node_main.__file__).with_name("idle_agent.py"))]
    )
    assert started == [
        [
            *("raylet", f"--session_dir={tmp_path}", f"--node_id={'ab' * 28}"),
            *(f"--dashboard_agent_command={idle}", f"--runtime_env_agent_command={idle}"),
            f"--python_worker_command=python setup_worker.py {worker_main.__file__} --x=1 PLACE",
        ],
        ["log_monitor", "--x"],
    ]
    assert {path.name.removesuffix(f"_{'ab' * 28}"): path.read_text() for path in tmp_path.iterdir()} == {
        "dashboard_agent_listen_port": "-1",
        "metrics_agent_port": "-1",
        "metrics_export_port": "-1",
        "runtime_env_agent_port": "-1",
    }


def test_a_worker_that_runs_the_tenants_code_is_started_as_shipped(tmp_path: Path) -> None:
    started: list[Any] = []
    start = lean_node.lean_start_process(
        lambda command, *_: started.append(command), ("127.0.0.1", 1), (), own_workers=False
    )
    start(
        [
            *("raylet", f"--session_dir={tmp_path}", f"--node_id={'ab' * 28}", "--dashboard_agent_command=x"),
            "--python_worker_command=python default_worker.py",
        ]
    )
    assert started[0][-1] == "--python_worker_command=python default_worker.py"
