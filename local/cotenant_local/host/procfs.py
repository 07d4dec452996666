"""Facts of processes from /proc/PID: state, parent, start time, descendants.

The one place in this tree outside `inside` that reads it. Not psutil: the inits are PID 1 and should start at once, and
a start time in ticks is exact where psutil's is computed from the clock of the machine.
"""

from pathlib import Path

STATE, PARENT, START_TIME = 0, 1, 19
"""Positions in `/proc/PID/stat` behind the name, which may hold spaces and brackets."""


def stat(pid: int) -> list[str]:
    """The fields behind the name. Raises OSError if the process is gone."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def start_time(pid: int) -> int | None:
    """Ticks since boot at which a process began: with the id it names one process. None when that is gone."""
    try:
        fields = stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[STATE] in {"Z", "X"} else int(fields[START_TIME])


def is_stopped(pid: int) -> bool:
    """True after SIGSTOP or under a debugger: the process is there, and does nothing."""
    try:
        return stat(pid)[STATE] in {"T", "t"}
    except OSError:
        return False


def any_stopped(pid: int) -> bool:
    """The process is stopped, or a child that works for it: nothing comes of either."""
    try:
        helpers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        helpers = []
    return any(is_stopped(each) for each in (pid, *map(int, helpers)))


def descendants(root: int) -> list[int]:
    """The process and all below it. Orphans of a node become children of its init, so none is missed."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int(stat(int(folder.name))[PARENT])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found
