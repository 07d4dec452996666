"""Simulated size of a node: a kubelet that sees as many CPUs and as much memory as the cluster's file gives the node.

The kubelet offers what /proc/meminfo and /sys/devices/system show. In a mount namespace of the kubelet's own those show
the figures of the file, as LXCFS does for containers. Containers do not see it; they run on the real machine.
"""

import sys
from pathlib import Path

from cotenant_local.host.cluster_plan import NodePlan
from cotenant_local.host.mounts import bind, mount

STAGE = Path("/run/cotenant/machine")
MEMINFO = Path("/proc/meminfo")
SYSTEM = Path("/sys/devices/system")


def wrap(command: list[str], node: NodePlan) -> list[str]:
    """The kubelet's command line, changed so that it sees `node`; unchanged if it is to see the machine."""
    if node.cpu is None and node.memory_bytes is None:
        return command
    # The kubelet's own mounts must still reach the runtime, so nothing of the propagation is changed.
    namespace = ["unshare", "--mount", "--propagation", "unchanged"]
    amounts = [str(node.cpu or 0), str(node.memory_bytes or 0)]
    return [*namespace, sys.executable, "-m", "cotenant_local.node.simulated_resources", *amounts, *command]


def meminfo(real: str, total: int) -> str:
    """The machine's figures with another total. Used memory stays the same."""
    lines = dict(line.split(":", 1) for line in real.splitlines())
    old = {name: int(value.split()[0]) for name, value in lines.items()}
    used = old["MemTotal"] - old["MemAvailable"]
    new = {**old, "MemTotal": total // 1024, "SwapTotal": 0, "SwapFree": 0}
    new["MemFree"] = new["MemAvailable"] = max(0, new["MemTotal"] - used)
    return "".join(f"{name + ':':16}{value:>8} kB\n" for name, value in new.items())


def write_processors(folder: Path, count: int) -> None:
    """/sys/devices/system with `count` CPUs of one thread each, all in one socket and one memory node."""
    for index in range(count):
        cpu = folder / "cpu" / f"cpu{index}"
        (cpu / "topology").mkdir(parents=True)
        (cpu / "online").write_text("1\n")
        for name, value in (("core_id", index), ("physical_package_id", 0), ("thread_siblings_list", index)):
            (cpu / "topology" / name).write_text(f"{value}\n")
        here = folder / "node" / "node0" / cpu.name
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(f"../../cpu/{cpu.name}")
    everyone = f"0-{count - 1}\n" if count > 1 else "0\n"
    for name in ("online", "possible", "present"):
        (folder / "cpu" / name).write_text(everyone)
    (folder / "node" / "online").write_text("0\n")
    (folder / "node" / "node0" / "distance").write_text("10\n")


def main() -> None:
    """Runs in the kubelet's own mount namespace: covers the files, then becomes the kubelet."""
    import os
    import shutil

    cpu, memory, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    mount("none", "/sys", None, 1 << 18 | 0x4000)  # MS_PRIVATE | MS_REC: what follows stays in here
    if memory:
        (STAGE / "meminfo").write_text(meminfo(MEMINFO.read_text(), memory))
        bind(STAGE / "meminfo", MEMINFO)
    if cpu:
        write_processors(STAGE / "system", cpu)
        bind(STAGE / "system", SYSTEM)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
