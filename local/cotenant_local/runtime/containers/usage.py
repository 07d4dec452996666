"""Usage of containers: from their cgroups if there are any, else summed over their processes.

A container's processes are those in its mount namespace. Sums miss processes that ended without being waited for,
so CPU time is kept from going backwards.
"""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from cotenant_local.runtime.containers.container import Container
from cotenant_local.runtime.containers.sandboxes import Sandbox
from cotenant_local.runtime.isolation import container_cgroups


@dataclass(frozen=True)
class ContainerUsage:
    """One container at one moment, in nanoseconds and bytes."""

    timestamp: int
    cpu: int
    memory: int
    working_set: int
    resident: int
    processes: int
    written: int
    """Bytes in its own file system, which is memory here."""
    files: int


class UsageMeter:
    """Measures all containers of a node in one pass over /proc."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}

    def measure(self, containers: list[Container]) -> dict[str, ContainerUsage]:
        running = {}
        for container in containers:
            with contextlib.suppress(OSError):
                if container.running:
                    running[os.readlink(f"/proc/{container.pid}/ns/mnt")] = container
        processes: dict[str, list[int]] = {container.id: [] for container in running.values()}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    if found := running.get(os.readlink(f"/proc/{entry}/ns/mnt")):
                        processes[found.id].append(int(entry))
        self.highest = {name: value for name, value in self.highest.items() if name in processes}
        return {container.id: self._one(container, processes[container.id]) for container in running.values()}

    def _one(self, container: Container, pids: list[int]) -> ContainerUsage:
        if container.cgroup is not None:
            cpu, memory, working_set, resident = container_cgroups.usage(container.cgroup)
        else:
            cpu = sum(map(_cpu, pids))
            memory = working_set = resident = sum(map(_memory, pids))
        cpu = self.highest[container.id] = max(cpu, self.highest.get(container.id, 0))
        written, files = _own_files(container)
        return ContainerUsage(time.time_ns(), cpu, memory, working_set, resident, len(pids), written, files)


def _cpu(pid: int) -> int:
    """User and system time in nanoseconds, of the process and of the children that it waited for; 0 when it is gone."""
    import psutil  # 20 ms, and not needed where there are cgroups

    try:
        return round(sum(psutil.Process(pid).cpu_times()[:4]) * 1e9)
    except psutil.Error:
        return 0


def _memory(pid: int) -> int:
    """Resident bytes, with shared pages counted in proportion; 0 if the process is gone."""
    import psutil

    try:
        return int(psutil.Process(pid).memory_full_info().pss)
    except psutil.Error:
        return 0


def _own_files(container: Container) -> tuple[int, int]:
    """Bytes and files in its root, and in the layer over the machine's /usr if it has one (`inside/layers`)."""
    used = files = 0
    with contextlib.suppress(OSError):
        root = f"/proc/{container.pid}/root"
        layered = os.stat(f"{root}/usr").st_dev != os.stat("/usr").st_dev
        for place in ("/", *(["/usr"] if layered else [])):
            room = os.statvfs(root + place)
            used += (room.f_blocks - room.f_bfree) * room.f_frsize
            files += room.f_files - room.f_ffree
    return used, files


def network(sandbox: Sandbox) -> tuple[int, int, int, int]:
    """Received bytes and errors, sent bytes and errors of a pod's own interface."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{sandbox.pid}/net/dev").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name.strip() == "eth0":
                fields = [int(field) for field in rest.split()]
                return fields[0], fields[2], fields[8], fields[10]
    return 0, 0, 0, 0
