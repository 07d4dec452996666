"""Which pod a process on a GPU belongs to: host PID → cgroup path → pod UID and container ID.

The driver names host PIDs and knows nothing of containers, so the agent reads the host's /proc, mounted read-only. The
path is searched, never anchored: an agent in a private cgroup namespace sees `/../../kubepods-…`. A PID is only
believed together with its start time, because PIDs are used again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

# Leftmost match wins: a container that runs containers of its own belongs to the outer pod.
POD_PATH: Final = re.compile(
    r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?"
    r"/(?:(?:cri-containerd|crio|docker)-)?(?P<container>[0-9a-f]{64})(?:\.scope)?(?:/|$)"
)

MOST_KNOWN: Final = 4096


class Kind(StrEnum):
    POD = "pod"
    FOREIGN = "foreign"
    """Alive, on the GPU, and in no pod."""
    GONE = "gone"
    """Ended between the driver's list and our look."""


@dataclass(frozen=True, slots=True)
class Owner:
    kind: Kind
    pod_uid: str = ""
    container: str = ""


FOREIGN: Final = Owner(Kind.FOREIGN)
GONE: Final = Owner(Kind.GONE)


def owner_in(cgroup: str) -> Owner:
    """From the text of /proc/<pid>/cgroup, version 1 or 2."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if (found := POD_PATH.search(path)) is not None:
            return Owner(Kind.POD, pod_uid(found["uid"]), found["container"])
    return FOREIGN


def pod_uid(written: str) -> str:
    """systemd's slices write the UID with underscores. A static pod's UID is 32 hex digits and stays as it is."""
    return written.replace("_", "-")


def start_time_in(stat: str) -> int:
    """Field 22 of /proc/<pid>/stat. The command (field 2) may hold spaces and brackets: count from the last one."""
    return int(stat.rpartition(")")[2].split()[19])


def boot_time_in(stat: str) -> float:
    """`btime` of /proc/stat, Unix seconds: when the host started, also when a container reads it."""
    return float(next(line.split()[1] for line in stat.splitlines() if line.startswith("btime ")))


class HostProcesses:
    """Owners of processes, remembered as long as the process lives. `root` is the host's /proc."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[int, tuple[int, Owner]] = {}

    def readable(self) -> bool:
        """Whether this is the host's /proc at all: PID 1 must have a cgroup."""
        try:
            return bool((self._root / "1" / "cgroup").read_text())
        except OSError:
            return False

    def owner(self, pid: int) -> Owner:
        folder = self._root / str(pid)
        try:
            started = start_time_in((folder / "stat").read_text())
            known = self._known.get(pid)
            if known is not None and known[0] == started:
                return known[1]
            owner = owner_in((folder / "cgroup").read_text())
            if start_time_in((folder / "stat").read_text()) != started:
                return GONE
        except (FileNotFoundError, ProcessLookupError, IndexError, ValueError):
            self._known.pop(pid, None)
            return GONE
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[pid] = (started, owner)
        return owner
