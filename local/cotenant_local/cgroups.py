"""Where the nodes' containers may have cgroups: only as root, and only where the hierarchy can be written.

`parent` is asked before a cluster starts, `remove` after it ended: cgroups are the one thing that the end of a PID
namespace does not take along.
"""

import contextlib
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "memory", "pids")


def parent(cluster: str) -> str | None:
    """For version 2 a folder, for version 1 a path below every controller's folder; None without the right."""
    if os.geteuid() != 0:
        return None
    name = f"cotenant-{cluster}"
    if not (ROOT / "cgroup.controllers").exists():
        return f"/{name}" if os.access(ROOT / "memory", os.W_OK) else None
    try:
        _delegate(ROOT)
        (ROOT / name).mkdir(exist_ok=True)
        _delegate(ROOT / name)
    except OSError:
        return None
    return str(ROOT / name)


def remove(cluster: str) -> None:
    for top in {ROOT / f"cotenant-{cluster}", *ROOT.glob(f"*/cotenant-{cluster}")}:
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def _delegate(folder: Path) -> None:
    available = (folder / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in CONTROLLERS if name in available)
    (folder / "cgroup.subtree_control").write_text(wanted)
