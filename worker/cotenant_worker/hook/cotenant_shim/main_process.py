"""Elects the Python process of a rank that is the rank itself, and the one that trains for it.

Both are the first that comes, across processes that know nothing of each other: a file that is created exclusively.
When that process is gone, the next one that comes succeeds it: a script may train in several, one after the other.
Imports next to nothing, because every process runs this at its start.
"""

from __future__ import annotations

import contextlib
import os

_elected = {}  # type: ignore[var-annotated]
"""(pid, role) → whether this process has it. A fork has another pid and is elected anew."""


def rank():
    """This rank's number in the job. Programs that start their own processes often give each of them another RANK."""
    return int(os.environ.get("COTENANT_RANK") or os.environ.get("RANK") or "0")


def in_rank():
    """Whether this process belongs to a rank. One with several GPUs of its own has none of torchrun's variables."""
    return "COTENANT_RANK" in os.environ or "RANK" in os.environ


def world_size():
    """How many ranks the job has. A torchrun inside a rank gives its processes another WORLD_SIZE."""
    return int(os.environ.get("COTENANT_RANKS") or os.environ.get("WORLD_SIZE") or "1")


def is_main_process():
    """The first Python process of this rank that is alive; DataLoader workers and other children are not it."""
    return _is_first("main")


def is_training_process():
    """The main process, or else the first child that comes to where training shows.

    Only to be called there (a process group, an optimizer's step): the call itself is the candidacy.
    """
    return is_main_process() or _is_first("trains")


def note_use(what):
    """Note that this process of the rank uses `what`."""
    path = _use_path(what)
    if path:
        with contextlib.suppress(OSError):
            open(f"{path}{os.getpid()}", "w").close()


def count_uses(what):
    """How many processes of this start of the rank have used `what`."""
    path = _use_path(what)
    folder, _, prefix = path.rpartition("/")
    return sum(name.startswith(prefix) for name in os.listdir(folder)) if path else 0


def _use_path(what):
    state, generation = os.environ.get("COTENANT_STATE_DIR"), os.environ.get("COTENANT_RESTART")
    return f"{state}/rank-{rank()}.{what}-{generation}-" if state and generation and in_rank() else ""


def _is_first(role):
    key = (os.getpid(), role)
    if key not in _elected:
        _elected[key] = False
        generation = os.environ.get("COTENANT_RESTART")
        state = os.environ.get("COTENANT_STATE_DIR")
        if generation is not None and state and in_rank():
            _elected[key] = _claimed(os.path.join(state, f"rank-{rank()}.{role}-{generation}"), str(key[0]))
    return _elected[key]


def _claimed(flag, pid):
    """Claim the file `flag`, or the file after the last holder that is gone: each successor adds one to the line."""
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
