"""Elects the Python process of a rank that is the rank itself, and the one that trains for it.

In both cases it is the first that comes. The processes do not know each other, so each tries to create a file
exclusively. When the elected process ends, the next one that comes succeeds it: a script may train in several
processes, one after the other. It imports very little, because every process runs it at its start.
"""

from __future__ import annotations

import contextlib
import os

_elected = {}  # type: ignore[var-annotated]
"""(pid, role) → whether this process has it. A fork has another pid and is elected anew."""


def rank():
    """This rank's number in the job. Programs that start processes of their own often give each another RANK."""
    return int(os.environ.get("COTENANT_RANK") or os.environ.get("RANK") or "0")


def in_rank():
    """True if this process belongs to a rank. A rank with several GPUs of its own has none of torchrun's variables."""
    return "COTENANT_RANK" in os.environ or "RANK" in os.environ


def world_size():
    """Number of ranks of the job. A torchrun inside a rank gives its processes another WORLD_SIZE."""
    return int(os.environ.get("COTENANT_RANKS") or os.environ.get("WORLD_SIZE") or "1")


def is_main_process():
    """True in the first living Python process of this rank; not in DataLoader workers and other children."""
    return _is_first("main")


def is_training_process():
    """True in the main process, or in the first child that trains.

    Call it only from a place that shows training (a process group, an optimizer's step), because the call makes this
    process a candidate.
    """
    return is_main_process() or _is_first("trains")


def note_use(what):
    """Note that this process of the rank uses `what`."""
    path = _path(what)
    if path:
        with contextlib.suppress(OSError):
            open(f"{path}-{os.getpid()}", "w").close()


def count_uses(what):
    """Number of processes of this start of the rank that have used `what`."""
    path = _path(what)
    folder, _, prefix = path.rpartition("/")
    return sum(name.startswith(f"{prefix}-") for name in os.listdir(folder)) if path else 0


def _path(what):
    """Path for a file of this start of the rank; empty outside a rank."""
    state, generation = os.environ.get("COTENANT_STATE_DIR"), os.environ.get("COTENANT_RESTART")
    return f"{state}/rank-{rank()}.{what}-{generation}" if state and generation and in_rank() else ""


def _is_first(role):
    key = (os.getpid(), role)
    if key not in _elected:
        path = _path(role)
        _elected[key] = bool(path) and _claimed(path, str(key[0]))
    return _elected[key]


def _claimed(flag, pid):
    """Claim the file `flag`, or the file after that of the last holder that is gone. Each successor adds one."""
    line = []
    while True:
        name = ".after-".join([flag, *line[-1:]])
        try:
            with open(name, "x") as file:
                file.write(pid)
            return True
        except OSError:
            holder = _read(name)
        if holder == pid:
            return True  # claimed before it became another program (`exec`), or in its first call
        if not holder.isdigit() or holder in line or _is_alive(int(holder)):
            return False
        line.append(holder)


def _read(name):
    try:
        with open(name) as file:
            return file.read()
    except OSError:
        return ""


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
