"""One per container, between runtime and program: starts it, writes its log, answers on a socket, records its end.

It outlives a restart of the runtime. Files in the container's folder: `spec.json` (in), `ctl.sock`, `started.json`,
`exit.json` (out; written whole or not at all). If the shim is killed, the container dies with it.
"""

import contextlib
import json
import os
import signal
import socket
import time
from typing import Any

from cotenant_local.runtime.inside import io_loop, reports, start, syscalls
from cotenant_local.runtime.inside.logs import LogFile


def run(request: dict[str, Any], fds: list[int]) -> None:
    """`request`: folder of the container. The descriptor gets {"pid"} or {"error"}, when the program runs or cannot."""
    (report,) = fds
    folder = request["folder"]
    with open(f"{folder}/spec.json") as file:
        spec = json.load(file)
    syscalls.set_name("container-shim")
    for deaf in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(deaf, signal.SIG_IGN)
    try:
        log = LogFile(spec["log_path"])
        listener = _listen(f"{folder}/ctl.sock")
        program = start.start(spec)
    except (OSError, reports.SetupError) as error:
        message = reports.describe(error)
        record(folder, code=128, reason="StartError", message=message)
        reports.send(report, error=message)
        return
    write_whole(f"{folder}/started.json", {"pid": program.pid, "started_at": time.time_ns()})
    reports.send(report, pid=program.pid)
    os.close(report)
    for fd in range(2):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    loop = io_loop.IoLoop(program, log, listener, stdin_once=spec["stdin_once"])
    status = loop.run()
    if spec["namespaces"]["pid"] != "new":
        kill_all_in(program.mounts)
    log.finish()
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = 128 + number if number else os.WEXITSTATUS(status)
    killed = number == signal.SIGKILL and start.out_of_memory(spec)
    reason = "OOMKilled" if killed else "Completed" if code == 0 else "Error"
    record(folder, code=code, number=number, reason=reason, message="")
    loop.close()  # the end of every watch


def _listen(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(64)
    return listener


def kill_all_in(mounts: str) -> None:
    """Kills processes that a container leaves in a shared PID namespace, found by their mount namespace."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/ns/mnt") == mounts:
                    os.kill(int(entry), signal.SIGKILL)


def record(folder: str, *, code: int, reason: str, message: str, number: int = 0) -> None:
    document = {"exit_code": code, "signal": number, "reason": reason, "message": message}
    write_whole(f"{folder}/exit.json", {**document, "finished_at": time.time_ns()})


def write_whole(path: str, document: dict[str, Any]) -> None:
    with open(path + ".new", "w") as file:
        json.dump(document, file)
    os.rename(path + ".new", path)
