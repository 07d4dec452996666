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
    """The leader: the name of its pod, and what tells this process from an earlier one in the same pod."""
    return str(lease(tenancy).get("holderIdentity") or "")


def another_holder(tenancy: Tenancy, former: str) -> bool:
    return holder(tenancy) not in {"", former}


def kill(tenancy: Tenancy, pod: str) -> None:
    """An ordinary user's pods have ids of their own: they are killed from inside the cluster's user namespace."""
    command = [sys.executable, str(Path(__file__).with_name("sigkill.py")), pod]
    if os.geteuid() != 0:
        inside = f"--target={control_socket.peer(tenancy.cluster.state.control)}"
        command = ["nsenter", "--user", "--preserve-credentials", inside, *command]
    subprocess.run(command, check=True)
