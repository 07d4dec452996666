"""How a pod's Ray node is started: the flags that both sides know, the parts of Ray that are replaced, what is said."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from cotenant_worker.host.processes import ChildWatcher
from cotenant_worker.ray_cluster import lean_node, node_main, worker_main
from cotenant_worker.ray_cluster.node_command import start_command
from cotenant_worker.ray_cluster.processes import RayProcesses, failure_line
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
    assert (chosen.port, chosen.address) == ((6379, None) if node == 0 else (None, "10.0.0.1:6379"))


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


def test_ray_is_imported_without_what_a_job_never_uses_and_has_it_when_it_asks() -> None:
    program = (
        "import sys; from cotenant_worker.ray_cluster import lazy_imports; lazy_imports.install_lazy_imports();"
        "import ray;"
        "import ray._private.services, ray._private.state, ray._private.runtime_env.plugin_schema_manager as schemas;"
        "assert set(lazy_imports.LAZY_PACKAGES) <= set(sys.modules);"
        "assert not {'urllib3', 'jsonschema.validators'} & set(sys.modules);"
        "schemas.jsonschema.validate(1, {'type': 'integer'});"
        "from requests.adapters import HTTPAdapter; import requests, types;"
        "assert requests.Session().adapters['http://'].__class__ is HTTPAdapter;"
        "assert type(requests) is types.ModuleType and requests.__spec__.loader is requests.__loader__;"
        "assert requests.adapters.__spec__.origin and requests.adapters.HTTPAdapter is HTTPAdapter"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_module_that_is_not_installed_is_missed_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    from cotenant_worker.ray_cluster import lazy_imports

    monkeypatch.setattr(lazy_imports, "LAZY_PACKAGES", ("a_module_that_nobody_has",))
    assert lazy_imports.LazyFinder().find_spec("a_module_that_nobody_has") is None


async def test_a_pod_that_ray_leaves_in_the_middle_of_joining_ends_with_the_jobs_patience(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    job = contract([1, 1], command=("x",), node_rank=1, rendezvous_timeout_s=1)
    node = SimpleNamespace(exit=asyncio.get_running_loop().create_future(), alive=True)
    monkeypatch.setattr(RayProcesses, "_spawn", lambda *_: node)
    monkeypatch.setattr(RayProcesses, "_resolve_head", AsyncMock(return_value="10.0.0.1"))
    finish = await RayProcesses(job, ChildWatcher(), {}, "10.0.0.2").run()
    assert (finish.reason, finish.message) == (
        "RendezvousTimeout",
        "this pod did not get into the job's Ray cluster at pod-0 within 2 s",
    )


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


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param(("2026 INFO started", "cotenant: raylet ended with -9"), "raylet ended with -9", id="ours"),
        pytest.param(
            ("Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "ConnectionError: no GCS", ""),
            "ConnectionError: no GCS",
            id="the end of a traceback",
        ),
        pytest.param(
            ("ray.exceptions.RaySystemError: it broke",), "ray.exceptions.RaySystemError: it broke", id="dotted"
        ),
        pytest.param(("2026 INFO started", "  retrying"), "", id="nothing that explains it"),
    ],
)
def test_the_reason_is_found_in_the_last_lines_of_a_log(lines: tuple[str, ...], want: str) -> None:
    assert failure_line(lines) == want
