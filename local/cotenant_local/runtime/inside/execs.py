"""Runs one more program inside a running container (`kubectl exec`, probes). It ends with the request.

The caller holds the other ends: streams (or, with a terminal, a socket on which its outer side is sent), a report pipe,
and a control socket whose closing kills the program.
"""

import os
import select
import signal
import socket
from typing import Any

from cotenant_local.runtime.inside import reports, start, syscalls
from cotenant_local.runtime.inside.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
)

ENTER = {"net": CLONE_NEWNET, "uts": CLONE_NEWUTS, "ipc": CLONE_NEWIPC, "mnt": CLONE_NEWNS}  # mnt last: hides /proc


def run(request: dict[str, Any], fds: list[int]) -> None:
    """`request`: pid of the container's program, process, tty, cgroup_files. Descriptors: report, control, 0, 1, 2."""
    report, control, *streams = fds
    syscalls.set_name("container-exec")
    process, target = request["process"], request["pid"]
    try:
        other = [kind for kind in (*ENTER, "pid") if os.readlink(f"/proc/{target}/ns/{kind}") != _here(kind)]
        namespaces = {kind: os.open(f"/proc/{target}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in other}
        if process["map_user"]:
            process["user_namespace"] = os.open(f"/proc/{target}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        if "pid" in namespaces:
            syscalls.setns(namespaces["pid"], CLONE_NEWPID, "PID")
    except OSError as error:
        reports.send(report, error=f"the container is not running: {error.strerror}")
        return
    errors, failed = os.pipe()
    pid = os.fork()
    if pid == 0:
        start.run_or_report(failed, lambda: _enter(request, namespaces, streams, control, failed))
    os.close(failed)
    for fd in streams:
        os.close(fd)
    with os.fdopen(errors, "rb") as pipe:
        failure = pipe.read()
    if failure:
        os.write(report, failure)
        os.waitpid(pid, 0)
        return
    reports.send(report, pid=pid)
    reports.send(report, exit_code=_wait(pid, control))


def _here(kind: str) -> str:
    return os.readlink(f"/proc/self/ns/{kind}")


def _enter(request: dict[str, Any], namespaces: dict[str, int], streams: list[int], control: int, failed: int) -> None:
    os.setsid()
    for path in request["cgroup_files"]:
        with open(path, "w") as file:
            file.write("0")
    for kind, flag in ENTER.items():
        if kind in namespaces:
            syscalls.setns(namespaces[kind], flag, kind)
    process = request["process"]
    if request["tty"]:
        outer, inner = os.openpty()
        os.fchown(inner, process["uid"] if not process["map_user"] else 0, -1)
        socket.send_fds(socket.socket(fileno=os.dup(control)), [b"t"], [outer])
        syscalls.libc.ioctl(inner, 0x540E, 0)
        streams = [inner, inner, inner]
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    start.execute(process, failed)


def _wait(pid: int, control: int) -> int:
    """The exit code; kills the program's session when the caller hangs up."""
    end = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(end, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if end in ready:
            status = os.waitpid(pid, 0)[1]
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        poll.unregister(control)
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
