"""Reads the error files of a rank that failed. The tenant's program may have written anything there, or nothing."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from itertools import islice
from pathlib import Path
from typing import Final

from cotenant_worker.host import layout
from cotenant_worker.supervision.lingering_ranks import Lingering
from cotenant_worker.supervision.rank_error import MAX_BYTES, RankError, first_failure, parse, parse_returned

_MAX_FILES = 64
_MAX_PID_DIGITS = 12
_TORCH = "torch.json"
_SHORTLY_S = 5.0
"""A shell ends so soon after the program that killed itself."""


def environment_for_errors(rank: int, generation: int) -> dict[str, str]:
    """Make the folder for the files of one start. torch's `@record` writes there too, if the program uses it."""
    directory = layout.errors_dir(rank, generation)
    with contextlib.suppress(OSError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {"TORCHELASTIC_ERROR_FILE": str(directory / _TORCH)}


def error_of(rank: int, generation: int, pid: int, *, succeeded: bool = False) -> RankError | None:
    """The failure that ended this rank, process `pid`, or that it hides by ending with 0 (`succeeded`); torch's own
    file if there is no other.
    """
    directory = layout.errors_dir(rank, generation)
    found: list[RankError] = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in islice(entries, _MAX_FILES):
            name = entry.name.partition(".")[0]
            if name.isascii() and name.isdecimal() and len(name) < _MAX_PID_DIGITS:
                error = parse(_content(directory / entry.name), int(name))
                found += [error] if error is not None else []
    return first_failure(found, pid, time.time(), succeeded=succeeded) or parse(_content(directory / _TORCH), pid)


def lingering(rank: int, generation: int, pid: int) -> Lingering | None:
    """What the shim wrote about the end of a rank whose process `pid` still runs; None if nothing."""
    directory = layout.errors_dir(rank, generation)
    returned = parse_returned(_content(directory / f"{pid}.returned"))
    if returned is None:
        return None
    error = parse(_content(directory / f"{pid}.json"), pid)
    return Lingering(rank, generation, error, *returned)


def killed_itself(rank: int, generation: int, number: int | None, ended_at: float) -> bool:
    """True if the shim saw one of the rank's own processes send the signal that ended it at `ended_at` (monotonic).

    Helpers kill themselves too: some when they are done, others because the rank has ended.
    """
    with contextlib.suppress(OSError), os.scandir(layout.errors_dir(rank, generation)) as entries:
        notes = [entry.name for entry in islice(entries, _MAX_FILES) if entry.name.endswith(f".own-kill-{number}")]
        return any(ended_at - _SHORTLY_S <= _sent_at(rank, generation, note) <= ended_at for note in notes)
    return False


_OWN_GROUP: Final = re.compile(
    r"""\bkill\b[^;\n|&]*\s["']?(0|-?\$\$|-?\$\{?BASHPID\}?|-\$\(ps\b)["']?(?=[\s;&|)"']|$)""", re.MULTILINE
)
GROUP_KILL_HINT: Final = (
    "the script sends SIGTERM to itself and to all that it started (kill 0). Let it end only what it started:"
    " trap 'kill $(jobs -p)' EXIT"
)


def ends_itself(script: str) -> bool:
    """True if this text of a shell script signals its own process group, as `trap 'kill 0' EXIT` does at its end."""
    return bool(_OWN_GROUP.search(script))


def _sent_at(rank: int, generation: int, note: str) -> float:
    try:
        return float(_content(layout.errors_dir(rank, generation) / note))
    except ValueError:
        return 0.0


def _content(path: Path) -> bytes:
    """Content of a regular file; empty for a link, a pipe, or an unreadable file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        return file.read(MAX_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
