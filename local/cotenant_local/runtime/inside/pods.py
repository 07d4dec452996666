"""The process that holds a pod's namespaces: network, UTS, IPC, and PID if the pod's containers share one.

It only exists, and reaps children if it is PID 1 of the pod. The runtime wires its network from outside.
"""

import os
import signal
import socket
from typing import Any

from cotenant_local.runtime.inside import reports, syscalls
from cotenant_local.runtime.inside.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWPID,
    CLONE_NEWUTS,
)

FLAGS = {"net": CLONE_NEWNET, "uts": CLONE_NEWUTS, "ipc": CLONE_NEWIPC}
# Every pod may bind any port as any user and may ping, as under other runtimes.
DEFAULT_SYSCTLS = {"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "0 0"}
OPTIONAL_SYSCTLS = frozenset(DEFAULT_SYSCTLS)


def run(request: dict[str, Any], fds: list[int]) -> None:
    """`request`: own (namespaces to make), hostname, sysctls. Descriptors: report ({"pid"} or {"error"}), confirmation.

    A runtime that dies before it has recorded the pod never confirms; the process then ends, and nothing is left.
    """
    report, confirmation = fds
    try:
        syscalls.unshare(sum(FLAGS[kind] for kind in request["namespaces"] if kind in FLAGS))
        if "uts" in request["namespaces"]:
            socket.sethostname(request["hostname"])
        if "net" in request["namespaces"]:
            _apply(DEFAULT_SYSCTLS)
        _apply(request["sysctls"])
        if "pid" in request["namespaces"]:
            syscalls.unshare(CLONE_NEWPID)
            if pid := os.fork():
                reports.send(report, pid=pid)
                return
    except (OSError, reports.SetupError) as error:
        reports.send(report, error=reports.describe(error))
        return
    if "pid" not in request["namespaces"]:
        reports.send(report, pid=os.getpid())
    os.close(report)
    if os.read(confirmation, 1):
        os.close(confirmation)
        _sleep_forever()


def _apply(sysctls: dict[str, str]) -> None:
    for name, value in sysctls.items():
        path = "/proc/sys/" + name.replace(".", "/")
        try:
            with open(path, "w") as file:
                file.write(value)
        except OSError as error:
            if name not in OPTIONAL_SYSCTLS:
                raise reports.SetupError(f"sysctl {name}={value} cannot be set: {error.strerror}") from error


def _sleep_forever() -> None:
    """Sleeps; as PID 1 of a pod its orphans are reaped by the kernel because SIGCHLD is ignored."""
    syscalls.set_name("pod-sandbox")
    os.chdir("/")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for fd in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    while True:
        signal.pause()


def connect_in_network(request: dict[str, Any], fds: list[int]) -> None:
    """Connects a socket to a port inside a pod's network and hands it back: port-forward needs nothing in the pod.

    `request`: port, namespace (path). The first descriptor is a socket to answer on.
    """
    answer = socket.socket(fileno=fds[0])
    namespace = os.open(request["namespace"], os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscalls.setns(namespace, CLONE_NEWNET, "network")
        connection = socket.create_connection(("127.0.0.1", request["port"]), timeout=10)
        connection.settimeout(None)
    except OSError as error:
        answer.sendall(f"port {request['port']}: {error}".encode())
        return
    socket.send_fds(answer, [b"ok"], [connection.fileno()])
