"""Processes as the kernel shows them in /proc: state, parent, session, command line. Linux, read-only.

Stdlib only, for process 1: importing psutil would add 20 ms to its start, and one file of `/proc/PID` answers each
question.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The first fields of `/proc/PID/stat` after the name."""

    state: str
    """One letter, as `ps` shows it."""
    parent: int
    session: int


def read_stat(pid: int) -> ProcessStat | None:
    """Facts about a process; None if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name before the state is in parentheses and may hold some of its own.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return ProcessStat(fields[0], int(fields[1]), int(fields[3]))
    return None


def is_stopped(pid: int) -> bool:
    """True if a process and all its threads wait for SIGCONT (or for a debugger)."""
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


@dataclass(frozen=True, slots=True)
class Member:
    """A living process of a rank, and what it does with SIGTERM."""

    pid: int
    parent: int
    name: str
    """The name it gives itself: `ps -o comm`."""
    program: str = ""
    """Name of the file that it runs, without folder; for a script of a shell: the shell."""
    script: str = ""
    """Of Python: the name of its script without folder, or of its module."""
    heeds: bool = False
    """True if it has a handler for SIGTERM, or waits for it."""
    ignores: bool = False
    in_background: bool = False
    """True if a shell without job control started it with `&`: it ignores SIGQUIT."""
    exit_trap: bool = False
    """True for a bash with a trap for its exit: it catches every signal that would end it, SIGVTALRM too."""


def rank_members(root: int, session: int, variables: Collection[str]) -> list[Member]:
    """The living processes of a rank (`rank_pids`), with what they do with SIGTERM."""
    stats = ((pid, read_stat(pid)) for pid in rank_pids(root, session, variables))
    return [_member(pid, stat.parent) for pid, stat in stats if stat is not None]


def rank_pids(root: int, session: int, variables: Collection[str]) -> list[int]:
    """The living processes below `root` that belong to `session`, or whose environment has all `variables`
    ("NAME=value"), or that such a process has started and whose environment has none of these names.

    A rank may start processes in sessions of their own. One that changes its title, by setproctitle, writes it over
    its environment. Zombies do not count.
    """
    wanted = {variable.encode() for variable in variables}
    names = tuple(variable.partition(b"=")[0] + b"=" for variable in wanted)
    found: set[int] = set()
    for pid in descendants(root):
        stat = read_stat(pid)
        if stat is None or stat.state in "ZX":
            continue
        known = [each for each in _strings(pid, "environ") if each.startswith(names)]
        if stat.session == session or wanted <= {*known} or (stat.parent in found and not known):
            found.add(pid)
    return sorted(found)


_REAL_TIME: Final = 34
_EACH: Final = (1 << 30) - 1
"""Of the signals behind these, a program in Go catches each, like SIGTERM and all others, before its first line. So its
handlers do not show what it does: `wandb-core` ends at once, and its Python loses what it logs.
"""


def _member(pid: int, parent: int) -> Member:
    facts: dict[str, str] = {}
    program = ""
    with contextlib.suppress(OSError):
        facts = dict(line.split(":\t", 1) for line in _status(pid).splitlines() if ":\t" in line)
        program = os.path.basename(os.readlink(_PROC / str(pid) / "exe"))
    caught = _mask(facts, "SigCgt")
    chosen = caught if caught >> _REAL_TIME != _EACH else 0
    return Member(
        pid,
        parent,
        facts.get("Name", ""),
        program or facts.get("Name", ""),
        _script(_strings(pid, "cmdline")) if program.startswith("python") else "",
        heeds=_has(chosen | _mask(facts, "SigBlk"), signal.SIGTERM),
        ignores=_has(_mask(facts, "SigIgn"), signal.SIGTERM),
        in_background=_has(_mask(facts, "SigIgn"), signal.SIGQUIT),
        exit_trap=program == "bash" and _has(caught, signal.SIGVTALRM),
    )


def _script(words: list[bytes]) -> str:
    """What a command of Python runs: `train.py`, or `package.module` after `-m`; empty for what is typed."""
    rest = iter(os.fsdecode(word) for word in words[1:])
    for word in rest:
        if word in ("-X", "-W"):
            next(rest, "")
        elif word in ("-c", "-m") or not word.startswith("-"):
            return next(rest, "") if word == "-m" else "" if word == "-c" else os.path.basename(word)
    return ""


def _status(pid: int) -> str:
    return (_PROC / str(pid) / "status").read_text(errors="replace")


def _mask(facts: dict[str, str], field: str) -> int:
    return int(facts.get(field, "0"), 16)


def _has(mask: int, number: signal.Signals) -> bool:
    return bool(mask >> (number - 1) & 1)


def command_line(pid: int) -> str:
    """The command line it was started with; empty if it is gone, or if the kernel is still executing it."""
    return b" ".join(_strings(pid, "cmdline")).decode(errors="replace")


def _strings(pid: int, file: str) -> list[bytes]:
    with contextlib.suppress(OSError):
        return [part for part in (_PROC / str(pid) / file).read_bytes().split(b"\0") if part]
    return []
