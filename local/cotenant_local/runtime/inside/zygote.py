"""A small process, forked for every pod, container and exec: a fork costs 1 ms, a start of Python 30 ms.

The runtime starts it once and sends requests over a socket: one JSON document with file descriptors. It never answers;
the child reports through the descriptors of its request. It ends when the runtime does; its children live on.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

from cotenant_local.runtime.inside import execs, pods, shim, syscalls

TASKS: dict[str, Callable[[dict[str, Any], list[int]], None]] = {
    "pod": pods.run,
    "container": shim.run,
    "exec": execs.run,
    "netns": pods.connect_in_network,
}
MAX_REQUEST_BYTES = 1 << 18
MAX_FDS: Final = 8


def serve(requests: socket.socket) -> None:
    """Forks for each request until the runtime closes its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps; children set it back
    while True:
        try:
            data, fds, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, MAX_FDS)
        except InterruptedError:
            continue
        if not data:
            return
        if os.fork() == 0:
            requests.close()
            _child(json.loads(data), list(fds))
        for fd in fds:
            os.close(fd)


def _child(request: dict[str, Any], fds: list[int]) -> None:
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        TASKS[request["task"]](request, fds)
        status = 0
    except BaseException:  # the last resort of a process of its own: a traceback in the runtime's log
        with contextlib.suppress(OSError):
            traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    syscalls.set_name("cri-zygote")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends with the runtime, by the socket
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
