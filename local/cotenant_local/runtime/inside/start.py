"""Starts the program of a container: namespaces, root, identity, exec. An error comes back as one sentence."""

import contextlib
import errno
import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from cotenant_local.runtime.inside import identity, reports, rootfs, syscalls
from cotenant_local.runtime.inside.reports import SetupError
from cotenant_local.runtime.inside.syscalls import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWUTS

NAMESPACES = {"net": CLONE_NEWNET, "uts": CLONE_NEWUTS, "ipc": CLONE_NEWIPC}


@dataclass
class StartedProgram:
    """A started program as its parent sees it."""

    pid: int
    stdin: int
    """Write end, or -1."""
    outputs: dict[int, str]
    """Read ends by stream name; of a terminal, its other side."""
    terminal: int = -1
    mounts: str = ""
    """Its mount namespace, as /proc names it; read by the program itself, which may end at any moment."""


def start(spec: dict[str, Any]) -> StartedProgram:
    """Returns when the program runs; raises SetupError when it cannot."""
    entries = _open_namespaces(spec)
    stdio = Stdio(tty=spec["tty"], stdin=spec["stdin"])
    errors, report = os.pipe()
    barrier, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        run_or_report(report, lambda: _become_container(spec, entries, stdio, barrier, report))
    for fd in (report, barrier, *(fd for fd, _, _ in entries)):
        os.close(fd)
    try:
        _limit(pid, spec)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise
    with contextlib.suppress(BrokenPipeError):  # the child has failed already: its report has the reason
        os.write(go, b"1")
    os.close(go)
    return await_exec(pid, stdio, errors)


def run_or_report(report: int, action: Callable[[], None]) -> NoReturn:
    """Runs `action` in the child: it ends in exec, or its error goes through the pipe that exec would have closed."""
    try:
        action()
    except BaseException as error:
        reports.send(report, error=reports.describe(error))
    finally:
        os._exit(128)


def await_exec(pid: int, stdio: "Stdio", errors: int) -> StartedProgram:
    terminal = stdio.parent()
    with os.fdopen(errors, "rb") as pipe:
        report_lines = pipe.read()
    words: dict[str, str] = {}
    for line in report_lines.splitlines():
        words |= json.loads(line)
    if "error" in words:
        os.waitpid(pid, 0)
        stdio.close()
        raise SetupError(words["error"])
    mounts = words.get("mounts", "")
    if terminal >= 0:
        return StartedProgram(pid, terminal if stdio.wants_stdin else -1, {terminal: "stdout"}, terminal, mounts)
    return StartedProgram(pid, stdio.stdin, dict(stdio.outputs), mounts=mounts)


def _open_namespaces(spec: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Descriptors to enter; the PID namespace is set here, for the next fork."""
    asked = spec["namespaces"]
    entries = []
    for kind, flag in NAMESPACES.items():
        if asked[kind]:
            entries.append((os.open(asked[kind], os.O_RDONLY | os.O_CLOEXEC), flag, kind))
    if asked["pid"] == "new":
        syscalls.unshare(CLONE_NEWPID)
    elif asked["pid"]:
        fd = os.open(asked["pid"], os.O_RDONLY | os.O_CLOEXEC)
        syscalls.setns(fd, CLONE_NEWPID, "PID")
        os.close(fd)
    return entries


def _become_container(
    spec: dict[str, Any], entries: list[tuple[int, int, str]], stdio: "Stdio", barrier: int, report: int
) -> None:
    os.setsid()
    for fd, flag, kind in entries:
        syscalls.setns(fd, flag, kind)
    rootfs.enter(spec)
    process = spec["process"]
    try:
        os.makedirs(process["cwd"], exist_ok=True)
    except OSError as error:
        raise SetupError(f"working directory {process['cwd']}: {error.strerror}") from error
    rootfs.make_readonly(spec)
    if not os.read(barrier, 1):  # until the parent has put us where our limits are
        raise SetupError("the container's shim died while it started")
    stdio.child(owner=process["uid"] if not process["map_user"] else 0)
    reports.send(report, mounts=os.readlink("/proc/self/ns/mnt"))
    execute(process, report)


def execute(process: dict[str, Any], report: int) -> None:
    """Becomes the user and the program; `report` closes on exec."""
    identity.reset_signals()
    identity.apply(process)
    os.closerange(3, report)
    os.closerange(report + 1, 4096)
    try:
        os.chdir(process["cwd"])
    except OSError as error:
        raise SetupError(f"working directory {process['cwd']}: {error.strerror}") from error
    env = {os.fsencode(name): os.fsencode(value) for name, value in process["env"].items()}
    args = [os.fsencode(arg) for arg in process["args"]]
    name = process["args"][0]
    try:
        os.execve(_find(name, process["env"].get("PATH", "")), args, env)
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            raise SetupError(f'exec: "{name}": exec format error: no interpreter line and not a program') from error
        raise SetupError(f'exec: "{name}": {(error.strerror or "").lower()}') from error


def _find(name: str, path: str) -> str:
    if "/" in name:
        return name
    for folder in path.split(":"):
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise SetupError(f'exec: "{name}": executable file not found in $PATH ({path})')


def _limit(pid: int, spec: dict[str, Any]) -> None:
    for path in spec["cgroup_files"]:
        with open(path, "w") as file:
            file.write(str(pid))
    adjustment = spec["process"]["oom_score_adj"]
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write(str(adjustment))
    except OSError:
        return  # lowering it needs rights of the machine; the kernel then keeps what the runtime has


def out_of_memory(spec: dict[str, Any]) -> bool:
    """True if the kernel killed a process because of the container's memory limit."""
    path = spec["oom_file"]
    if not path:
        return False
    try:
        with open(path) as file:
            counts = dict(line.split() for line in file)
    except (OSError, ValueError):
        return False
    return int(counts.get("oom_kill", "0")) > 0


class Stdio:
    """Standard streams of a program: pipes, or a terminal made inside the container and handed out."""

    def __init__(self, *, tty: bool, stdin: bool) -> None:
        self.wants_stdin = stdin
        self.tty = tty
        self.stdin = -1
        self.outputs: dict[int, str] = {}
        self.inner: list[int] = []
        if tty:
            self.here, self.there = socket.socketpair()
            return
        if stdin:
            read, self.stdin = os.pipe()
        else:
            read = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.inner.append(read)
        for stream in ("stdout", "stderr"):
            mine, theirs = os.pipe()
            self.outputs[mine] = stream
            self.inner.append(theirs)

    def child(self, owner: int) -> None:
        if self.tty:
            master, slave = os.openpty()
            os.fchown(slave, owner, -1)
            socket.send_fds(self.there, [b"t"], [master])
            syscalls.libc.ioctl(slave, 0x540E, 0)  # TIOCSCTTY: becomes the controlling terminal
            self.inner = [slave, slave, slave]
        for number, fd in enumerate(self.inner):
            os.dup2(fd, number)

    def parent(self) -> int:
        """Closes the child's ends; the terminal's outer side, or -1 (also when the child failed before making it)."""
        for fd in self.inner:
            os.close(fd)
        if not self.tty:
            return -1
        self.there.close()
        _, fds, _, _ = socket.recv_fds(self.here, 1, 1)
        self.here.close()
        return fds[0] if fds else -1

    def close(self) -> None:
        for fd in (*self.outputs, self.stdin):
            if fd >= 0:
                os.close(fd)
