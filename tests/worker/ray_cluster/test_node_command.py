"""The command line and the environment of a pod's Ray node, whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.contract import CheckpointSpec
from cotenant_worker.host import layout
from cotenant_worker.ray_cluster.node_command import ray_environment, start_command
from tests.support.pod_sandbox import contract, uuid_of

HEAD = ["--head", "--port", "22379", "--include-dashboard", "false", "--no-monitor"]
MEMBER = ["--address", "10.0.0.1:22379"]


@pytest.mark.parametrize(
    ("mode", "node", "verb", "where", "own"),
    [
        pytest.param("command", 0, "node", HEAD, ("1", "0", "false"), id="the head: the actor needs one CPU"),
        pytest.param("command", 1, "node", MEMBER, ("1", "0", "false"), id="another pod"),
        pytest.param("rayTrain", 0, "ray-start", HEAD, ("5", "2", "true"), id="Ray Train: the pod's CPUs and one more"),
        pytest.param("rayTrain", 1, "ray-start", MEMBER, ("5", "1", "true"), id="Ray Train: this pod's GPUs"),
    ],
)
def test_a_node_is_started_by_this_command(
    mode: str, node: int, verb: str, where: list[str], own: tuple[str, str, str]
) -> None:
    cpus, gpus, log_monitor = own
    job = contract([2, 1], command=("x",), mode=mode, node_rank=node)
    assert start_command(job, "python", ip="10.0.0.9", head_address="10.0.0.1", cpus=4) == [
        *("python", "-P", "-m", "cotenant_worker.ray_cluster.node_main", verb),
        *where,
        "--block",
        *("--node-ip-address", "10.0.0.9", "--num-cpus", cpus, "--num-gpus", gpus),
        *("--resources", f'{{"w{node}": 1}}', "--object-store-memory", "80000000"),
        *("--include-log-monitor", log_monitor, "--disable-usage-stats"),
        *("--node-manager-port", "22380", "--object-manager-port", "22381", "--runtime-env-agent-port", "22382"),
        *("--min-worker-port", "22400", "--max-worker-port", "22499"),
    ]


def test_ray_train_has_a_cpu_for_every_rank_of_the_pod_where_the_limit_is_lower() -> None:
    job = contract([3], command=("x",), mode="rayTrain")
    command = start_command(job, "python", ip="10.0.0.1", head_address="10.0.0.1", cpus=1)
    assert command[command.index("--num-cpus") + 1] == "4"


ALWAYS = {
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "120",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "8",
    "RAY_enable_metrics_collection": "0",
    "RAY_raylet_client_connect_timeout_milliseconds": "20",
    "RAY_raylet_client_num_connect_attempts": "500",
    "PYTHONSAFEPATH": "1",
    "HOME": "/state/home",
    "COTENANT_STATE_DIR": "/state",
}
HOOK = str(layout.HOOK_DIR)


@pytest.mark.parametrize(
    ("fields", "own"),
    [
        pytest.param(
            {},
            {
                "PYTHONPATH": "/opt/image",
                "RAY_enable_worker_prestart": "1",
                "RAY_TMPDIR": "/tmp/.cotenant",
                "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
            },
            id="no code of the tenant's",
        ),
        pytest.param(
            {"mode": "rayTrain", "node_rank": 1, "grace_s": 45, "checkpoint": CheckpointSpec("/checkpoints/job")},
            {
                "PYTHONPATH": f"/workspace:{HOOK}:/opt/image",
                "CUDA_VISIBLE_DEVICES": uuid_of("2a"),
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "COTENANT_COLLECTIVE": "gloo",
                "COTENANT_RESTART": "0",
                "COTENANT_CODE_DIR": "/workspace",
                "COTENANT_GRANT": "2",
                "RAY_TMPDIR": "/tmp",
                "COTENANT_CHECKPOINT_DIR": "/checkpoints/job",
                "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "35",
            },
            id="Ray Train's workers run the tenant's code on this pod's GPUs",
        ),
        pytest.param(
            {"mode": "rayTrain", "grace_s": 5},
            {
                "PYTHONPATH": f"/workspace:{HOOK}:/opt/image",
                "CUDA_VISIBLE_DEVICES": f"{uuid_of('0a')},{uuid_of('1a')}",
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "COTENANT_COLLECTIVE": "gloo",
                "COTENANT_RESTART": "0",
                "COTENANT_CODE_DIR": "/workspace",
                "COTENANT_GRANT": "0",
                "RAY_TMPDIR": "/tmp",
                "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "1",
            },
            id="a short grace still drains",
        ),
    ],
)
def test_ray_and_what_it_starts_get_this_environment(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], own: dict[str, str]
) -> None:
    monkeypatch.setenv(layout.ENV_STATE, "/state")
    inherited = {"PYTHONPATH": "/workspace/:/opt/image:", "PYTHONSTARTUP": "/workspace/rc.py", "HOME": "/root"}
    job = contract([2, 1], command=("x",), rendezvous_timeout_s=120, **fields)
    assert ray_environment(inherited, job, home="/state/home") == ALWAYS | own


TENANTS = {"PYTHONWARNINGS": "error", "PYTHONOPTIMIZE": "2", "RAY_BACKEND_LOG_LEVEL": "debug", "TMPDIR": "/scratch"}


@pytest.mark.parametrize(
    ("mode", "kept", "folder"),
    [
        pytest.param("command", {}, "/tmp/.cotenant", id="ours"),
        pytest.param("rayTrain", TENANTS, "/tmp", id="the program's"),
    ],
)
def test_settings_of_the_tenants_python_and_ray_reach_a_ray_only_if_it_runs_their_program(
    mode: str, kept: dict[str, str], folder: str
) -> None:
    job = contract([2], command=("x",), mode=mode)
    env = ray_environment({**TENANTS, "RAY_AUTH_TOKEN": "t", "PYTHONUSERBASE": "/opt/u"}, job, home="/state/home")
    assert {name: env[name] for name in TENANTS if name in env} == kept
    assert (env["RAY_AUTH_TOKEN"], env["PYTHONUSERBASE"], env["RAY_TMPDIR"]) == ("t", "/opt/u", folder)


@pytest.mark.parametrize(("timeout_s", "register_s"), [(300, "300"), (60, "60"), (10, "60")])
def test_a_slow_worker_of_ray_has_the_jobs_patience_and_rays_minute_at_least(timeout_s: int, register_s: str) -> None:
    """After a minute, Ray would give the worker up and start no other, and the driver would wait."""
    job = replace(contract([1, 1], command=("x",)), rendezvous_timeout_s=timeout_s)
    env = ray_environment({}, job, home="/tmp")
    assert (env["RAY_worker_register_timeout_seconds"], "PYTHONPATH" in env) == (register_s, False)
