"""Claims on cgroups for the nodes' containers: as root, and as a user with a delegated part of version 2.

cgroups are the one thing that the end of a PID namespace does not take along. So a cluster's own is locked as long as
any process of its sandbox lives, and every start and end of a cluster removes those that no lock holds any more.
"""

import contextlib
import fcntl
import itertools
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "memory", "pids", "hugetlb", "cpuset")
LOCKED: Final = "memory"
"""In version 1 a cluster has one folder per controller; this one's is locked."""
PREFIX: Final = "cotenant-"
DIVIDED = ("cpu", "memory")
"""Without these two a part of the hierarchy limits nothing that matters."""
ASIDE: Final = "cotenant"
"""Version 2 gives controllers only to groups without processes: those of a part that is divided move in here."""
SYSTEMD: Final = "systemd-run --user --scope --property=Delegate=yes"
REMOVE_DEADLINE_S: Final = 2.0


@dataclass(frozen=True)
class CgroupClaim:
    parent: str
    """For version 2 a folder, for version 1 a path below every controller's folder."""
    descriptor: int
    """Holds the claim, also in processes that inherit it."""


def claim(cluster: str, root: Path = ROOT) -> CgroupClaim | None:
    """A group for the nodes of a cluster; None without the right."""
    with contextlib.suppress(OSError):
        if os.geteuid() != 0:
            if (part := _delegated_group(root)) is None or _why_undelegated(part):
                return None
            _step_aside(part)
            return _claim_in(part, cluster)
        if _is_unified(root):
            return _claim_in(root, cluster)
        name, descriptor = _first_free(cluster, root / LOCKED)
        return CgroupClaim(f"/{name}", descriptor)
    return None


def why_none(root: Path = ROOT) -> str:
    """The reason why `claim` gave nothing."""
    if os.geteuid() == 0:
        return f"the cgroups in {root} cannot be written"
    part = _delegated_group(root)
    if part is None:
        return "that needs root, or version 2 of cgroups"
    return _why_undelegated(part) or f"the cgroups in {part} cannot be written"


def sweep(root: Path = ROOT) -> None:
    """Removes groups left by clusters that are gone."""
    if os.geteuid() != 0:
        part = _delegated_group(root)
        if part is None or not os.access(part, os.W_OK):
            return
        top, tops = part, [part]
    else:
        top = root if _is_unified(root) else root / LOCKED
        tops = [root] if top == root else [folder for folder in root.iterdir() if (folder / "cgroup.procs").exists()]
    for name in sorted({left.name for folder in tops for left in folder.glob(f"{PREFIX}*")}):
        descriptor = _lock(top / name)
        if descriptor is not None:
            _remove(top / name, [folder / name for folder in tops if folder != top])
            os.close(descriptor)


def _is_unified(root: Path) -> bool:
    return (root / "cgroup.controllers").exists()


def _delegated_group(root: Path) -> Path | None:
    """The group of this process, with those of its processes that an earlier cluster moved aside; version 2 only."""
    if not _is_unified(root):
        return None
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                part = root / line[len("0::") :].lstrip("/")
                return part.parent if part.name == ASIDE else part
    return None


def _why_undelegated(part: Path) -> str:
    """The reason why an ordinary user cannot divide it; empty when there is none."""
    if not all(os.access(part / file, os.W_OK) for file in ("", "cgroup.procs", "cgroup.subtree_control")):
        return f"that needs root, or cgroups of your own (start the cluster with: {SYSTEMD} cotenant local up)"
    available = (part / "cgroup.controllers").read_text().split()
    if missing := [name for name in DIVIDED if name not in available]:
        return f"the cgroups in {part} are yours, but without {' and '.join(missing)} (systemd: Delegate=yes)"
    return ""


def _step_aside(part: Path) -> None:
    """This process and its neighbours make room, once: the group itself may then be divided."""
    aside = part / ASIDE
    aside.mkdir(exist_ok=True)
    while pids := (part / "cgroup.procs").read_text().split():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (aside / "cgroup.procs").write_text(pid)


def _claim_in(top: Path, cluster: str) -> CgroupClaim:
    _delegate(top)
    name, descriptor = _first_free(cluster, top)
    _delegate(top / name)
    return CgroupClaim(str(top / name), descriptor)


def _first_free(cluster: str, top: Path) -> tuple[str, int]:
    """Clusters of two state folders may have the same name."""
    for number in itertools.count(1):
        name = f"{PREFIX}{cluster}" + (f".{number}" if number > 1 else "")
        if (descriptor := _lock(top / name)) is not None:
            return name, descriptor
    raise AssertionError("there is always a next number")


def _lock(folder: Path) -> int | None:
    """Locks a group, which exists afterwards. None if another process has the lock. Raises OSError."""
    while True:
        folder.mkdir(exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        with contextlib.suppress(FileNotFoundError):
            if folder.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)  # removed in between


def _remove(locked: Path, others: Iterable[Path] = ()) -> None:
    """The locked one last: once it is gone, a new cluster may have the name. Processes of a cluster that was killed
    may still be on their way out."""
    deadline = time.monotonic() + REMOVE_DEADLINE_S
    for top in (*others, locked):
        while not _is_removed(top):
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)


def _is_removed(top: Path) -> bool:
    """Removes what is empty. Never looks again at a group that it removed: another one may have its name by then."""
    for folder in _deepest_first(top):
        with contextlib.suppress(OSError):
            folder.rmdir()
            if folder == top:
                return True
    return not top.exists()


def _deepest_first(top: Path) -> Iterator[Path]:
    return (Path(folder) for folder, _, _ in os.walk(top, topdown=False))


def _delegate(folder: Path) -> None:
    available = (folder / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in CONTROLLERS if name in available)
    (folder / "cgroup.subtree_control").write_text(wanted)
