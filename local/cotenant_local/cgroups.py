"""Where the nodes' containers may have cgroups: only as root, and only where the hierarchy can be written.

cgroups are the one thing that the end of a PID namespace does not take along. So a cluster's own is locked as long as
any process of its sandbox lives, and whoever starts or ends a cluster removes those that nobody holds any more.
"""

import contextlib
import dataclasses
import fcntl
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "memory", "pids", "hugetlb", "cpuset")
LOCKED = "memory"
"""In version 1 a cluster has one folder per controller; this one's is locked."""
PREFIX = "cotenant-"
REMOVE_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Claim:
    parent: str
    """For version 2 a folder, for version 1 a path below every controller's folder."""
    descriptor: int
    """Holds the claim; whoever inherits it holds it too."""


def claim(cluster: str, root: Path = ROOT) -> Claim | None:
    """A group for the nodes of a cluster; None without the right."""
    if os.geteuid() != 0:
        return None
    top = _lockable(root)
    with contextlib.suppress(OSError):
        if top == root:
            _delegate(root)
        name, descriptor = _first_free(cluster, top)
        if top == root:
            _delegate(root / name)
        return Claim(str(root / name) if top == root else f"/{name}", descriptor)
    return None


def why_none(root: Path = ROOT) -> str:
    """Why `claim` gave nothing."""
    if os.geteuid() != 0:
        return "that needs root"
    return f"the cgroups in {root} cannot be written"


def sweep(root: Path = ROOT) -> None:
    """Removes what clusters left that are gone, however they ended."""
    if os.geteuid() != 0:
        return
    top = _lockable(root)
    tops = [root] if top == root else [folder for folder in root.iterdir() if (folder / "cgroup.procs").exists()]
    for name in sorted({left.name for folder in tops for left in folder.glob(f"{PREFIX}*")}):
        descriptor = _hold(top / name)
        if descriptor is not None:
            _remove([folder / name for folder in tops])
            os.close(descriptor)


def _lockable(root: Path) -> Path:
    return root if (root / "cgroup.controllers").exists() else root / LOCKED


def _first_free(cluster: str, top: Path) -> tuple[str, int]:
    """Clusters of two state folders may have the same name."""
    for number in itertools.count(1):
        name = f"{PREFIX}{cluster}" + (f".{number}" if number > 1 else "")
        if (descriptor := _hold(top / name)) is not None:
            return name, descriptor
    raise AssertionError("there is always a next number")


def _hold(folder: Path) -> int | None:
    """The lock on a group, which exists afterwards; None where somebody else has it. Raises OSError."""
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
        if folder.exists() and folder.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
        os.close(descriptor)  # somebody removed it in between


def _remove(tops: list[Path]) -> None:
    """Processes of a cluster that was killed may still be on their way out."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while any(top.exists() for top in tops):
        for folder in (folder for top in tops for folder in _deepest_first(top)):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


def _deepest_first(top: Path) -> Iterator[Path]:
    return (Path(folder) for folder, _, _ in os.walk(top, topdown=False))


def _delegate(folder: Path) -> None:
    available = (folder / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in CONTROLLERS if name in available)
    (folder / "cgroup.subtree_control").write_text(wanted)
