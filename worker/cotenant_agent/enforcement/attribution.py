"""Attributes a process on a GPU to its pod: host PID → cgroup path → pod UID and container ID.

The driver names host PIDs and knows nothing of containers, so the agent reads the host's /proc, mounted read-only. The
path is searched, never anchored: an agent in a private cgroup namespace sees `/../../kubepods-…`. A PID is only
believed together with its start time, because PIDs are used again. (psutil reads no cgroups, and one /proc per
process only: the whole of what it would replace is field 22 of one line.)
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

MAX_REMEMBERED: Final = 4096


class OwnerKind(StrEnum):
    POD = "pod"
    FOREIGN = "foreign"
    """Alive, on the GPU, and in no pod."""
    GONE = "gone"
    """Ended between the driver's list and the look at /proc."""


@dataclass(frozen=True, slots=True)
class ProcessOwner:
    kind: OwnerKind
    pod_uid: str = ""
    container: str = ""


FOREIGN: Final = ProcessOwner(OwnerKind.FOREIGN)
GONE: Final = ProcessOwner(OwnerKind.GONE)


def owner_in(cgroup: str) -> ProcessOwner:
    """Owner from the text of /proc/<pid>/cgroup, version 1 or 2."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if (found := POD_PATH.search(path)) is not None:
            return ProcessOwner(OwnerKind.POD, pod_uid(found["uid"]), found["container"])
    return FOREIGN


def pod_uid(written: str) -> str:
    """The UID as Kubernetes writes it: systemd's slices have underscores. A static pod's UID is 32 hex digits."""
    return written.replace("_", "-")


def start_time_in(stat: str) -> int:
    """Field 22 of /proc/<pid>/stat. The command (field 2) may hold spaces and brackets: count from the last one."""
    return int(stat.rpartition(")")[2].split()[19])


def boot_time_in(stat: str) -> float:
    """`btime` of /proc/stat, Unix seconds: when the host started, also when a container reads it."""
    return float(next(line.split()[1] for line in stat.splitlines() if line.startswith("btime ")))


def read_text(path: Path) -> str:
    """A file of /proc. A program names itself, in whatever bytes."""
    return path.read_text(encoding="utf-8", errors="replace")


class HostProcesses:
    """Owners of processes, remembered for the life of each process. `root` is the host's /proc."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[int, tuple[int, ProcessOwner]] = {}

    def readable(self) -> bool:
        """True if this is the host's /proc at all: PID 1 must have a cgroup."""
        try:
            return bool(read_text(self._root / "1" / "cgroup"))
        except OSError:
            return False

    def running_pods(self) -> frozenset[str] | None:
        """Uids of the pods with living processes; None where this is not the host's /proc. Zombies hold nothing."""
        if not self.readable():
            return None
        found = set()
        for folder in self._root.glob("[0-9]*"):
            try:
                if read_text(folder / "stat").rpartition(")")[2].split()[0] in {"Z", "X"}:
                    continue
                owner = owner_in(read_text(folder / "cgroup"))
            except (FileNotFoundError, ProcessLookupError, IndexError):
                continue  # it ended meanwhile
            except OSError:
                return None  # some processes are hidden from us
            found.add(owner.pod_uid)
        return frozenset(found - {""})

    def owner(self, pid: int) -> ProcessOwner:
        folder = self._root / str(pid)
        try:
            started = start_time_in(read_text(folder / "stat"))
            known = self._known.get(pid)
            if known is not None and known[0] == started:
                return known[1]
            owner = owner_in(read_text(folder / "cgroup"))
            if start_time_in(read_text(folder / "stat")) != started:
                return GONE
        except (FileNotFoundError, ProcessLookupError, IndexError, ValueError):
            self._known.pop(pid, None)
            return GONE
        except OSError:
            return FOREIGN  # it lives, and whose it is cannot be seen
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[pid] = (started, owner)
        return owner
