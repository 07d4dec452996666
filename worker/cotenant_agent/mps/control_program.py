"""Commands to the control daemon of one GPU, and its answers: `nvidia-cuda-mps-control -p 3 MODULE VERB …`."""

from __future__ import annotations

import os
import subprocess
from typing import Final

from cotenant_agent.mps.configuration import SERVER, GpuFolder, MpsError, NamespaceLimits, mebibytes, percent

PROGRAM: Final = "nvidia-cuda-mps-control"
COMMAND_S: Final = 20.0
READY: Final = "Ready"
NAMESPACE_COLUMNS: Final = 5
"""Columns of `namespace list` that are read: name, server, the server's status, limit of memory, percentage of threads.
"""
CLIENT_COLUMNS: Final = 4
"""Columns of `client list` that are read: PID, server, device, namespace. The client's command line follows."""


class ControlProgram:
    """Each command is a process. Raises MpsError if the daemon is missing or refuses."""

    def __init__(self, folder: GpuFolder, program: str = PROGRAM) -> None:
        self.folder, self.program = folder, program

    def server_status(self) -> str:
        """`Ready` once clients may come. A server whose GPU is missing disappears without a message."""
        self._command("server", "list", SERVER)
        return self._command("server", "get", SERVER, "status")

    def server_pid(self) -> int:
        """PID of the server, which is on the GPU itself."""
        answer = self._command("server", "get", SERVER, "pid")
        if not answer.isdigit():
            raise MpsError(f"{answer!r} is no PID of a server")
        return int(answer)

    def namespaces(self) -> dict[str, NamespaceLimits]:
        """Namespace → limits in force. A namespace without limits is missing."""
        lines = self._run("-p", "3", "namespace", "list", f"--server={SERVER}", "--format=csv,noheader").splitlines()
        rows = [line.split(",") for line in lines if line.count(",") >= NAMESPACE_COLUMNS - 1]
        found = {}
        for name, server, _, memory, threads, *_ in ([cell.strip() for cell in row] for row in rows):
            try:
                limits = NamespaceLimits(compute_percent=percent(threads), memory_mib=mebibytes(memory))
            except MpsError:
                continue
            if server == SERVER:
                found[name] = limits
        return found

    def create(self, namespace: str, limits: NamespaceLimits) -> None:
        self._command("namespace", "create", namespace, f"--server={SERVER}")
        self.set_limits(namespace, limits)

    def set_limits(self, namespace: str, limits: NamespaceLimits) -> None:
        amounts = (
            f"--active-thread-percentage={limits.compute_percent}",
            f"--pinned-memory-limit={limits.memory_mib}M",
        )
        self._command("namespace", "set", namespace, f"--server={SERVER}", *amounts)

    def delete(self, namespace: str) -> None:
        """The daemon refuses it while the namespace has clients."""
        self._command("namespace", "delete", namespace, f"--server={SERVER}")

    def clients(self) -> dict[int, str]:
        """PID of each client, in the daemon's PID namespace → its MPS namespace, from the daemon's list."""
        lines = self._run("-p", "3", "client", "list", f"--server={SERVER}", "--format=csv,noheader").splitlines()
        rows = (line.split(",", CLIENT_COLUMNS) for line in lines)
        return {int(row[0]): row[3].strip() for row in rows if len(row) >= CLIENT_COLUMNS and row[0].strip().isdigit()}

    def namespace_of(self, pid: int) -> str:
        """Namespace in which this process is a client; empty if it is none."""
        try:
            return self._command("client", "get", str(pid), "maws-ns")
        except MpsError:
            return ""

    def quit(self) -> None:
        """End the daemon, its server and their clients."""
        self._run("-q")

    def environment(self) -> dict[str, str]:
        """Environment of the daemon, or of a process that talks to it. It has no CUDA_VISIBLE_DEVICES of this process,
        whose numbers mean nothing there.
        """
        folders = {"CUDA_MPS_PIPE_DIRECTORY": str(self.folder.pipes), "CUDA_MPS_LOG_DIRECTORY": str(self.folder.logs)}
        return {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"} | folders

    def _command(self, *words: str) -> str:
        """The last line of the answer. The first call may print a greeting before it."""
        lines = self._run("-p", "3", *words).splitlines()
        return lines[-1].strip() if lines else ""

    def _run(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [self.program, *arguments],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MpsError(str(error)) from error
        if done.returncode:
            said = (done.stderr + done.stdout).strip().splitlines()
            raise MpsError(f"{' '.join(arguments)}: {said[-1] if said else f'exit code {done.returncode}'}")
        return done.stdout
