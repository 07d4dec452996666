"""Which Python process of a rank is the rank itself, and which one trains for it.

Both are settled by who comes first, across processes that know nothing of each other: a file that is made once. When
that process is gone, the next one that comes succeeds it: a script may train in several, one after the other.
Imports next to nothing, because every process asks at its start.
"""

from __future__ import annotations

import os

_answers = {}  # type: ignore[var-annotated]
"""(pid, what) → whether this process is it. A fork has another pid and asks again."""


def rank():
    """This rank's number in the job. Programs that start their own processes often give each of them another RANK."""
    return int(os.environ.get("COTENANT_RANK") or os.environ.get("RANK") or "0")


def ranks():
    """How many ranks the job has. A torchrun inside a rank gives its processes another WORLD_SIZE."""
    return int(os.environ.get("COTENANT_RANKS") or os.environ.get("WORLD_SIZE") or "1")


def is_main_process():
    """The first Python process of this rank that lives; DataLoader workers and other children are not it."""
    return _first_to("main")


def trains():
    """This process trains for its rank: the main one, or else the first child that comes to where training shows.

    Only to be asked there (a process group, an optimizer's step): asking is coming.
    """
    return is_main_process() or _first_to("trains")


def _first_to(what):
    key = (os.getpid(), what)
    if key not in _answers:
        _answers[key] = False
        generation = os.environ.get("COTENANT_RESTART")
        state = os.environ.get("COTENANT_STATE_DIR")
        if generation is not None and state and "RANK" in os.environ:
            _answers[key] = _claimed(os.path.join(state, f"rank-{rank()}.{what}-{generation}"), str(key[0]))
    return _answers[key]


def _claimed(flag, pid):
    """`flag` is this process's, or that of its line which lives: a successor has a flag after the one who is gone."""
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
            return True  # before it became another program (`exec`), or when it asked for the first time
        if not holder.isdigit() or holder in line or _lives(int(holder)):
            return False
        line.append(holder)


def _read(name):
    try:
        with open(name) as file:
            return file.read()
    except OSError:
        return ""


def _lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
