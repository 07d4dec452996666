"""The leader of an installed product, and a way to kill its process from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cotenant_local.controlplane import control_socket
from tests.live.e2e.tenancy import SYSTEM, Tenancy


def lease(tenancy: Tenancy) -> dict[str, Any]:
    spec: dict[str, Any] = tenancy.get("lease", "cotenant-operator", "-n", SYSTEM)["spec"]
    return spec


def holder(tenancy: Tenancy) -> str:
    """The leader: the name of its pod, and an id that differs for each process in that pod."""
    return str(lease(tenancy).get("holderIdentity") or "")


def another_holder(tenancy: Tenancy, former: str) -> bool:
    return holder(tenancy) not in {"", former}


def kill(tenancy: Tenancy, pod: str) -> None:
    """Kill it from inside the cluster's user namespace, because pods of an ordinary user have ids of their own."""
    command = [sys.executable, str(Path(__file__).with_name("sigkill.py")), pod]
    if os.geteuid() != 0:
        inside = f"--target={control_socket.peer(tenancy.cluster.state.control)}"
        command = ["nsenter", "--user", "--preserve-credentials", inside, *command]
    subprocess.run(command, check=True)
