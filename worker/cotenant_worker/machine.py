"""What the kernel says about this container: CPUs, interface, out-of-memory kills. Linux, read only."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def pod_interface() -> str:
    """The interface that peers are reached by, where it has the usual name; else the libraries choose."""
    return "eth0" if Path("/sys/class/net/eth0").exists() else ""


def available_cpus() -> int:
    """Whole CPUs that this container may use."""
    count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            count = min(count, max(1, int(quota) // int(period)))
    return count


def oom_kills() -> int:
    """How often the kernel has killed for memory in this container's cgroup; 0 where that cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/sys/fs/cgroup/memory.events").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
