"""Which Python process of a rank is the rank itself. Imports next to nothing: every process asks at its start."""

from __future__ import annotations

import os

_main_process = {}  # type: ignore[var-annotated]


def is_main_process():
    """The first Python process of this rank; DataLoader workers and other children are not it."""
    pid = os.getpid()
    if pid not in _main_process:
        _main_process.clear()
        _main_process[pid] = False
        generation = os.environ.get("COTENANT_RESTART")
        state = os.environ.get("COTENANT_STATE_DIR")
        rank = os.environ.get("RANK")
        if generation is not None and state and rank is not None:
            flag = os.path.join(state, f"rank-{rank}.main-{generation}")
            try:
                with open(flag, "x") as file:
                    file.write(str(pid))
            except OSError:
                return False
            _main_process[pid] = True
    return _main_process[pid]
