"""Which Python process of a rank is the rank itself, and which one trains for it.

Both are settled by who comes first, across processes that know nothing of each other: a file that is made once.
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
    """The first Python process of this rank; DataLoader workers and other children are not it."""
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
            flag = os.path.join(state, f"rank-{rank()}.{what}-{generation}")
            try:
                with open(flag, "x") as file:
                    file.write(str(key[0]))
                _answers[key] = True
            except OSError:
                _answers[key] = _holds(flag, key[0])
    return _answers[key]


def _holds(flag, pid):
    """This process was it before it became another program (`exec`)."""
    try:
        with open(flag) as file:
            return file.read() == str(pid)
    except OSError:
        return False
