"""Whether this machine lets the programs of one more cluster watch files.

Each Kubernetes program holds several instances of inotify, and Linux allows a user 128 of them unless it is configured
otherwise (inotify(7)). If they run out, a kubelet or an API server dies with `too many open files`, long after the
cluster seemed to come up.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

from cotenant_local.host.errors import LocalError

CONTROL_PLANE: Final = 15
"""Instances of API server, controller manager and scheduler of Kubernetes 1.36, counted in /proc."""
NODE: Final = 7
"""Of a kubelet and its kube-proxy."""
SETTING: Final = "fs.inotify.max_user_instances"


def check(nodes: int) -> None:
    """Raises LocalError if a cluster of so many nodes would get fewer instances than it needs."""
    wanted = CONTROL_PLANE + NODE * nodes
    left = _left(wanted)
    if left < wanted:
        raise LocalError(
            f"this cluster needs {wanted} instances of inotify, and {left} are left of those that Linux allows a user. "
            "End other clusters (`cotenant local down --all` ends all), "
            f"or: sudo sysctl {SETTING}={_allowed() + 4 * wanted}"
        )


def _left(enough: int) -> int:
    """How many more this user may have, counted up to `enough`."""
    libc = ctypes.CDLL(None, use_errno=True)
    held: list[int] = []
    try:
        while len(held) < enough:
            descriptor = libc.inotify_init1(os.O_CLOEXEC)
            if descriptor < 0:
                # ENOSYS is what some sandboxes say, and EMFILE also a process that may not open more of anything.
                return len(held) if ctypes.get_errno() == errno.EMFILE and _may_open() else enough
            held.append(descriptor)
        return len(held)
    finally:
        for descriptor in held:
            os.close(descriptor)


def _may_open() -> bool:
    """Whether this process may have one descriptor more."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def _allowed() -> int:
    with open("/proc/sys/" + SETTING.replace(".", "/")) as file:
        return int(file.read())
