"""A process with the imports done, that forks ranks. `python -m cotenant_worker.warm FD FIRST LATER`, one per pod.

Importing torch takes seconds; it happens here while Ray forms the cluster, once for all ranks of the pod, and a rank
that was killed starts again in milliseconds. A rank is forked twice, so that it becomes a child of the launcher and
not of this process. CUDA is not touched before the fork. Ranks wait for the modules FIRST (separated by commas);
LATER is imported when nobody has asked for a rank for some seconds.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from cotenant_worker.programs import Program

_IDLE_S = 5.0


def serve(control: socket.socket, later: list[str]) -> dict[str, Any]:
    """Fork a rank per request. Returns only in a rank, with its request; the server itself ends with its launcher."""
    while True:
        if later and not select.select([control], [], [], _IDLE_S)[0]:
            preload(later)
            later = []
        data, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 1)
        if not data:
            os._exit(0)
        request: dict[str, Any] = json.loads(data)
        read_end, write_end = os.pipe()
        middle = os.fork()
        if middle == 0:
            rank = os.fork()
            if rank:
                os.write(write_end, str(rank).encode())
                os._exit(0)
            os.close(read_end)
            os.close(write_end)
            control.close()
            _become_rank(request, descriptors[0])
            return request
        os.close(write_end)
        os.close(descriptors[0])
        pid = os.read(read_end, 32)
        os.close(read_end)
        os.waitpid(middle, 0)
        control.send(json.dumps({"pid": int(pid or b"0")}).encode())


def _become_rank(request: dict[str, Any], output: int) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for descriptor in (null, output):
        if descriptor > 2:
            os.close(descriptor)
    signal.set_wakeup_fd(-1)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if "multiprocessing.process" in sys.modules:
        # Where a process begins, as it remembers from its import: children that are spawned look for the program there.
        vars(sys.modules["multiprocessing.process"])["ORIGINAL_DIR"] = request["cwd"]
    if "numpy" in sys.modules:
        # Ranks must not share the random state that numpy drew when it was imported.
        with contextlib.suppress(Exception):
            sys.modules["numpy"].random.seed()
    gc.unfreeze()
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(f"rank-{os.environ.get('RANK', '?')}")  # what `ps` shows
    if "cotenant_shim" in sys.modules:
        sys.modules["cotenant_shim"].begin()


def preload(modules: list[str]) -> None:
    """Without the garbage collector, which would look through what is being imported again and again: a sixth of the
    time that torch takes. One look at the end finds what there is, and ranks begin as after an ordinary import.
    """
    gc.disable()
    for name in modules:
        # What cannot be imported here fails again in the program, where the tenant sees it.
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    gc.enable()


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload([name for name in sys.argv[2].split(",") if name])
    control.send(json.dumps({"ready": time.time()}).encode())
    request = serve(control, [name for name in sys.argv[3].split(",") if name])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from cotenant_worker.rank import run

    sys.exit(run(Program(request["kind"], tuple(request["argv"]))))


if __name__ == "__main__":
    main()
