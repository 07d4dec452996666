"""Targets of faults in a local cluster: pods through the API server, processes in /proc, components by name."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant_local.cluster import lifecycle
from cotenant_local.cluster.lifecycle import Cluster
from cotenant_local.controlplane import control_socket
from cotenant_local.host.procfs import descendants


class NoTargetError(Exception):
    """No process that this fault could hit runs. The message names what was looked for."""


@dataclass(slots=True)
class ClusterAccess:
    """A cluster and the random draw of targets in it."""

    cluster: Cluster
    dice: random.Random
    hit: str = ""
    """Target of the last fault, for the log."""
    urgent: int = 0
    """Number of jobs of higher priority so far."""
    nodes: list[str] = field(default_factory=lambda: ["gpu-1", "gpu-2", "gpu-3"])

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl(*arguments, stdin=stdin)

    def choose(self, candidates: list[Any], what: str) -> Any:
        if not candidates:
            raise NoTargetError(f"no {what} just now")
        found = self.dice.choice(candidates)
        self.hit = str(found)
        return found

    def pods(self, *, system: str = "") -> list[tuple[str, str]]:
        """(namespace, name) of running pods: those of jobs, or those of a component of Cotenant."""
        label = f"app.kubernetes.io/component={system}" if system else "cotenant.dev/job"
        text = self.kubectl("get", "pods", "-A", "-l", label, "--field-selector=status.phase=Running", "-o", "json")
        return [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in json.loads(text)["items"]]

    def processes(self, pod: str = "") -> Iterator[tuple[int, str, str]]:
        """(pid, command line, short name) of the cluster's processes; of one pod's, if it is named."""
        for pid in descendants(control_socket.peer(self.cluster.state.control)):
            folder = Path(f"/proc/{pid}")
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if pod and f"HOSTNAME={pod}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
                    continue
                yield pid, command, (folder / "comm").read_text().strip()
            except OSError:
                continue

    def component(self, name: str, node: str = "") -> int:
        """Host pid of a component of the cluster, or of one of a node."""
        status = lifecycle.status(self.cluster.name)
        inside = (status["nodes"][node] if node else status)["components"].get(name, {}).get("pid")
        depth = len(numbers_of(control_socket.peer(self.cluster.state.control))) + bool(node)
        for pid, _, _ in self.processes():
            numbers = numbers_of(pid)
            if inside and numbers[-1:] == [inside] and len(numbers) == depth and _on(pid, node):
                self.hit = f"{name} of {node}" if node else name
                return pid
        raise NoTargetError(f"no {name} {node}")


def numbers_of(pid: int) -> list[int]:
    """Pids of a process in each PID namespace, from this one inwards; empty when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []
    return [int(number) for line in lines if line.startswith("NSpid:") for number in line.split()[1:]]


def _on(pid: int, node: str) -> bool:
    """True for a child of the node's first process, which has the node's name among its arguments."""
    if not node:
        return True
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return node in Path(f"/proc/{parent}/cmdline").read_text().split("\0")
    except OSError:
        return False
