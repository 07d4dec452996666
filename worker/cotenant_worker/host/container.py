"""This container as the kernel shows it: CPUs, interface, out-of-memory kills. Linux, read-only."""

from __future__ import annotations

import contextlib
import os
import pwd
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_OOM_KILLS = ("memory.events", "memory/memory.oom_control")
_CPU_LIMITS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
"""Version 2 of cgroups, and version 1."""


def pod_interface() -> str:
    """The interface to the peers, if it has the usual name; otherwise libraries choose one."""
    return "eth0" if Path("/sys/class/net/eth0").exists() else ""


def user_name() -> str:
    """Name for `USER`. An image may not know the user of a pod, and `getpass.getuser()` fails without a name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"


def available_cpus() -> int:
    """Whole CPUs that this container may use."""
    count = len(os.sched_getaffinity(0))
    for files in _CPU_LIMITS:
        with contextlib.suppress(OSError, ValueError):
            quota, period = " ".join((_CGROUP / file).read_text() for file in files).split()
            if quota not in ("max", "-1"):
                count = min(count, max(1, int(quota) // int(period)))
    return count


def oom_kills() -> int:
    """Number of the kernel's kills for memory in this container's cgroup; 0 if that cannot be read."""
    for file in _OOM_KILLS:
        with contextlib.suppress(OSError, ValueError):
            for line in (_CGROUP / file).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0
