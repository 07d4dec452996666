"""Processes as the kernel shows them in /proc: state, parent, session, command line. Linux, read only.

Stdlib, for process 1: importing psutil would add 20 ms to its start, and each question here is answered by one file
of `/proc/PID`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The first fields of `/proc/PID/stat` after the name."""

    state: str
    """One letter, as `ps` shows it."""
    parent: int
    session: int


def read_stat(pid: int) -> ProcessStat | None:
    """Facts of a process; None where it has gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name before the state is in parentheses and may hold some of its own.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return ProcessStat(fields[0], int(fields[1]), int(fields[3]))
    return None


def is_stopped(pid: int) -> bool:
    """True for a process that waits for SIGCONT (or for its debugger), with all of its threads."""
    stat = read_stat(pid)
    return stat is not None and stat.state in "Tt"


def descendants(root: int) -> list[int]:
    """Every process below `root`, parents before their children."""
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
    parents = {pid: stat.parent for pid in pids if (stat := read_stat(pid)) is not None}
    found: list[int] = []
    frontier = [root]
    while frontier:
        above = set(frontier)
        frontier = [pid for pid, parent in parents.items() if parent in above]
        found += frontier
    return found


def survivors(root: int, session: int, variable: str) -> list[str]:
    """Command lines of the processes below `root` that belong to `session`, or were started with `variable`
    ("NAME=value") in their environment. Zombies have ended.
    """
    found = []
    for pid in sorted(descendants(root)):
        stat = read_stat(pid)
        if stat is None or stat.state in "ZX":
            continue
        if stat.session == session or variable.encode() in _strings(pid, "environ"):
            found.append(b" ".join(_strings(pid, "cmdline")).decode(errors="replace") or f"process {pid}")
    return found


def _strings(pid: int, file: str) -> list[bytes]:
    with contextlib.suppress(OSError):
        return [part for part in (_PROC / str(pid) / file).read_bytes().split(b"\0") if part]
    return []
