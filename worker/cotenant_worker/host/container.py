"""This container as the kernel shows it: CPUs, interface, out-of-memory kills, and its limits of files. Linux."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import resource
from pathlib import Path
from typing import Final

_CGROUP = Path("/sys/fs/cgroup")
_OOM_KILLS = ("memory.events", "memory/memory.oom_control")
_CPU_LIMITS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
"""Version 2 of cgroups, and version 1."""
_GPUS = Path("/dev/nvidiactl")
"""Every process of CUDA opens it first."""
OPEN_FILES: Final = 65_536
"""As many as KubeRay allows. Some programs close each number up to their limit, which takes long with a million."""


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


def allow_open_files() -> None:
    """Raise the limit of open files for this process and all that it starts, as far as the container may.

    containerd 2 starts containers with 1,024. Ray's node, NCCL among hundreds of ranks and the tensors of data loaders
    need more, and Kubernetes has no field for it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may have none
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def write_no_core_files() -> None:
    """Keep crashing processes from writing their memory to a file. A program may raise the limit again.

    On many nodes such a file goes to the working folder. If NCCL gives up, each rank aborts and writes all of its
    memory: the node runs out of disk, and its kubelet evicts pods of others.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def has_lost_gpus() -> bool:
    """True if the kernel no longer lets this container open GPUs whose files it still has.

    A `systemctl daemon-reload` on the node does that, if systemd was not told of the devices. No program in the
    container can do it.
    """
    try:
        os.close(os.open(_GPUS, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EPERM
    return False


def oom_kills() -> int:
    """Number of the kernel's kills for memory in this container's cgroup; 0 if that cannot be read."""
    for file in _OOM_KILLS:
        with contextlib.suppress(OSError, ValueError):
            for line in (_CGROUP / file).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0
