"""Attributes a process on a GPU to its pod: host PID → cgroup path → pod UID and container ID.

The driver does not know containers, so the agent reads the host's /proc, mounted read-only. Drivers since about R530
name only processes of the caller's PID namespace, by their PIDs there (_gpuConvertPid of NVIDIA's open kernel
modules), so the agent's namespace must be the host's (`hostPID`). Older drivers name host PIDs to everybody. The
pattern may match anywhere in the path: an agent in a private cgroup namespace sees `/../../kubepods-…`. A PID is only
believed together with its start time, because PIDs are reused. (psutil reads no cgroups and only one /proc for each
process; it would only replace field 22 of one line.)
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

# The leftmost match counts, because a container that runs containers inside belongs to the outer pod.
POD_PATH: Final = re.compile(
    r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?"
    r"[/:](?:(?:cri-containerd|crio|docker)[-:])?(?P<container>[0-9a-f]{64})(?:\.scope)?(?:/|$)"
)
"""Colons: the kubelet names slices of systemd, and containerd, whose SystemdCgroup is off, makes the cgroups."""

MAX_REMEMBERED: Final = 4096


class OwnerKind(StrEnum):
    POD = "pod"
    FOREIGN = "foreign"
    """The process lives on the GPU and belongs to no pod."""
    GONE = "gone"
    """The process ended between the driver's list and the look at /proc."""


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
    """The UID as Kubernetes writes it. Systemd's slices write underscores, and a static pod's UID is 32 hex digits."""
    return written.replace("_", "-")


def start_time_in(stat: str) -> int:
    """Field 22 of /proc/<pid>/stat. Counted from the last bracket, because the command (field 2) may contain spaces and
    brackets.
    """
    return int(stat.rpartition(")")[2].split()[19])


def boot_time_in(stat: str) -> float:
    """`btime` of /proc/stat: Unix seconds at which the host started, also if a container reads it."""
    return float(next(line.split()[1] for line in stat.splitlines() if line.startswith("btime ")))


def read_text(path: Path) -> str:
    """A file of /proc. It may contain any bytes, because a program chooses its own name."""
    return path.read_text(encoding="utf-8", errors="replace")


class HostProcesses:
    """Owners of processes, remembered as long as each process lives. `root` is the host's /proc."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[int, tuple[int, ProcessOwner]] = {}

    def readable(self) -> bool:
        """True if this is the host's /proc: PID 1 must have a cgroup."""
        try:
            return bool(read_text(self._root / "1" / "cgroup"))
        except OSError:
            return False

    def are_ours(self) -> bool:
        """True if this /proc counts PIDs as this process's namespace does, and therefore as the driver does."""
        try:
            return os.readlink(self._root / "self") == str(os.getpid())
        except OSError:
            return False

    def running_pods(self) -> frozenset[str] | None:
        """Uids of the pods with living processes; None if this is not the host's /proc. Zombies do not count."""
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
