"""Command and environment of this pod's Ray node. Pure; `node_main` parses the flags.

Each flag was measured (docs/worker-start.md): no dashboard, no autoscaler, no log monitor, no memory monitor, fixed
ports, token on, nice level 0, and a short reconnect so that a lost head is noticed. `--num-gpus 0` keeps Ray from
changing CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from cotenant.contract import Contract
from cotenant_worker.host import layout
from cotenant_worker.host.addresses import at
from cotenant_worker.ranks.device_environment import pod_uuids
from cotenant_worker.ranks.environment import choose_collective, code_path

_OBJECT_STORE_BYTES = 80_000_000
"""Ray's minimum is 78,643,200 bytes. Tensors never go through it."""


def start_command(contract: Contract, python: str, *, ip: str, head_address: str, cpus: int = 1) -> list[str]:
    """Command of a node. In mode `rayTrain` a share counts as one Ray GPU; its size is enforced elsewhere."""
    node = contract.node_rank
    train = contract.mode == "rayTrain"
    gpus = len(pod_uuids(contract.pods[node])) if train else 0
    cpus = max(cpus, len(contract.pods[node].ranks)) + 1 if train else 1
    head = node == 0
    low, high = layout.WORKER_PORTS
    where = (
        ["--head", "--port", str(layout.RAY_PORT), "--include-dashboard", "false", "--no-monitor"]
        if head
        else ["--address", at(head_address, layout.RAY_PORT)]
    )
    return [
        *(
            python,
            "-P",
            "-m",
            "cotenant_worker.ray_cluster.node_main",
            "ray-start" if train else "node",
            *where,
            "--block",
        ),
        *("--node-ip-address", ip, "--num-cpus", str(cpus), "--num-gpus", str(gpus)),
        *("--resources", json.dumps({f"w{node}": 1}), "--object-store-memory", str(_OBJECT_STORE_BYTES)),
        *("--include-log-monitor", str(train).lower(), "--disable-usage-stats"),
        *("--node-manager-port", str(layout.NODE_MANAGER_PORT)),
        *("--object-manager-port", str(layout.OBJECT_MANAGER_PORT)),
        *("--runtime-env-agent-port", str(layout.RUNTIME_ENV_PORT)),
        *("--min-worker-port", str(low), "--max-worker-port", str(high)),
    ]


def ray_environment(inherited: Mapping[str, str], contract: Contract, *, home: str) -> dict[str, str]:
    """Environment of `ray start`, the actor and the driver: no code of the tenant on the path, and the token.

    In mode `rayTrain` Ray's workers run the tenant's code, so they get its path, its GPUs and the memory limits.
    """
    train = contract.mode == "rayTrain"
    env = {key: value for key, value in inherited.items() if not _is_tenants_setting(key, train=train)}
    path = [part for part in inherited.get("PYTHONPATH", "").split(":") if part and not _is_tenant_path(part, contract)]
    if train:
        pod = contract.pods[contract.node_rank]
        path = [code_path(contract), str(layout.HOOK_DIR), *path]
        env["CUDA_VISIBLE_DEVICES"] = ",".join(pod_uuids(pod))
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        env[layout.ENV_COLLECTIVE] = choose_collective(contract)[0]
        env[layout.ENV_GENERATION] = "0"
        env[layout.ENV_CODE_DIR] = code_path(contract)
        env["COTENANT_GRANT"] = str(pod.ranks[0].rank)  # Ray numbers its workers itself; what they see is this pod's
        if contract.checkpoint:
            env[layout.ENV_CHECKPOINT_DIR] = contract.checkpoint.path
    else:
        env["RAY_enable_worker_prestart"] = "1"  # the actor's process begins to import before the actor is asked for
    if path:
        env["PYTHONPATH"] = ":".join(path)
    drain = max(1, contract.grace_s - 10) if train else 0
    # Not TMPDIR, for the names of sockets have 107 characters; and not where scripts remove what an earlier Ray left.
    env.setdefault("RAY_TMPDIR", "/tmp" if train else str(layout.HIDDEN_DIR))
    env |= {
        "RAY_AUTH_MODE": "token",
        "RAY_worker_niceness": "0",
        # On a busy machine a worker may need more than Ray's minute to start, and Ray would start no other instead.
        "RAY_worker_register_timeout_seconds": str(max(60, contract.rendezvous_timeout_s)),
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(drain),
        "RAY_health_check_initial_delay_ms": "2000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "5000",
        "RAY_health_check_failure_threshold": "8",
        "RAY_enable_metrics_collection": "0",
        # The raylet looks for its object store before that listens, and would look again after a whole second.
        "RAY_raylet_client_connect_timeout_milliseconds": "20",
        "RAY_raylet_client_num_connect_attempts": "500",
        "PYTHONSAFEPATH": "1",
        "HOME": home,
        layout.ENV_STATE: str(layout.state_dir()),
    }
    return env


def _is_tenants_setting(name: str, *, train: bool) -> bool:
    """True for a variable that is meant for the tenant's Python or Ray, such as PYTHONWARNINGS=error.

    In mode `rayTrain` their Python and Ray are started here.
    """
    if train:
        return name in ("PYTHONPATH", "PYTHONSTARTUP")
    return name == "TMPDIR" or (name.startswith(("PYTHON", "RAY_")) and not name.startswith(_KEPT))


_KEPT: Final = ("RAY_AUTH_", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE")
"""The job's token, and where Ray itself may lie."""


def _is_tenant_path(part: str, contract: Contract) -> bool:
    return part.rstrip("/") == code_path(contract).rstrip("/")
