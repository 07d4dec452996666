"""Limits of containers where the node has cgroup rights, in both versions of cgroups. Without, nothing is limited.

One group per container below one per pod: `<parent>/<pod>/<container>`. Version 1 has that path once per controller.
"""

import contextlib
import dataclasses
import logging
import time
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "memory", "pids")
PERIOD = 100_000
REMOVE_SECONDS = 1.0


class LimitError(Exception):
    """The kernel refused a limit; the message names the file and the value."""


@dataclasses.dataclass(frozen=True)
class Group:
    """The folders of one container: one per controller in version 1, one in version 2."""

    folders: dict[str, Path]
    unified: bool

    def files(self, name: str = "cgroup.procs") -> list[str]:
        return [str(folder / name) for folder in dict.fromkeys(self.folders.values())]

    @property
    def oom_file(self) -> str:
        return str(self.folders["memory"] / ("memory.events" if self.unified else "memory.oom_control"))

    def shown(self) -> list[dict[str, Any]]:
        """Binds that let programs read their own limits, where they look for them."""
        if self.unified:
            return [_shown(self.folders["memory"], ROOT)]
        return [_shown(folder, ROOT / name) for name, folder in self.folders.items()]


def _shown(source: Path, target: Path) -> dict[str, Any]:
    return {"source": str(source), "target": str(target), "readonly": True, "recursive_readonly": True}


class Cgroups:
    """The node's part of the hierarchy. Falsy when there is none."""

    def __init__(self, parent: str | None) -> None:
        self.parent = parent
        self.unified = (ROOT / "cgroup.controllers").exists()
        if parent is None:
            log.warning("no cgroup rights: limits of CPU and memory are not enforced on this node")
        elif self.unified:
            _delegate(Path(parent))

    def __bool__(self) -> bool:
        return self.parent is not None

    def make(self, pod: str, container: str, resources: Any) -> Group:
        """The container's group with its limits; raises LimitError."""
        assert self.parent is not None
        folders = {}
        for name in CONTROLLERS:
            top = Path(self.parent) if self.unified else ROOT / name / self.parent.strip("/")
            if not self.unified and not (ROOT / name).is_dir():
                continue
            folders[name] = top / pod / container
            try:
                folders[name].parent.mkdir(parents=True, exist_ok=True)
                if self.unified:
                    _delegate(folders[name].parent)
                folders[name].mkdir(exist_ok=True)
            except OSError as error:
                raise LimitError(f"cgroup {folders[name]}: {error.strerror}") from error
        group = Group(folders, self.unified)
        apply(group, resources)
        return group

    def remove(self, pod: str, container: str = "") -> None:
        """A container's group, or with no container the pod's. Its last process may still be on its way out."""
        if self.parent is None:
            return
        tops = [Path(self.parent)] if self.unified else [ROOT / name / self.parent.strip("/") for name in CONTROLLERS]
        for folder in (top / pod / container for top in tops):
            deadline = time.monotonic() + REMOVE_SECONDS
            while folder.is_dir() and time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.005)


def _delegate(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    available = (folder / "cgroup.controllers").read_text().split()
    wanted = [f"+{name}" for name in (*CONTROLLERS, "cpuset") if name in available]
    (folder / "cgroup.subtree_control").write_text(" ".join(wanted))


def apply(group: Group, resources: Any) -> None:
    """Writes the limits; zero means unlimited, as the kubelet says it."""
    for controller, name, value in settings(resources, unified=group.unified):
        if controller not in group.folders:
            raise LimitError(f"{name}={value}: this machine has no {controller} controller")
        path = group.folders[controller] / name
        try:
            path.write_text(value)
        except OSError as error:
            raise LimitError(f"{path}={value}: {error.strerror}") from error


def settings(resources: Any, *, unified: bool) -> list[tuple[str, str, str]]:
    """Controller, file and value of every limit that is asked for."""
    quota, period = resources.cpu_quota, resources.cpu_period or PERIOD
    memory = resources.memory_limit_in_bytes
    out: list[tuple[str, str, str]] = []
    if unified:
        if resources.cpu_shares:
            weight = 1 + (max(2, min(262144, resources.cpu_shares)) - 2) * 9999 // 262142
            out.append(("cpu", "cpu.weight", str(weight)))
        if quota:
            out.append(("cpu", "cpu.max", f"{quota if quota > 0 else 'max'} {period}"))
        if memory:
            out.append(("memory", "memory.max", str(memory) if memory > 0 else "max"))
        if resources.cpuset_cpus:
            out.append(("cpu", "cpuset.cpus", resources.cpuset_cpus))
        return out + [(name.split(".")[0], name, value) for name, value in sorted(resources.unified.items())]
    if resources.cpu_shares:
        out.append(("cpu", "cpu.shares", str(resources.cpu_shares)))
    if quota:
        out += [("cpu", "cpu.cfs_period_us", str(period)), ("cpu", "cpu.cfs_quota_us", str(quota))]
    if memory:
        out.append(("memory", "memory.limit_in_bytes", str(memory)))
    if resources.cpuset_cpus:
        out.append(("cpuset", "cpuset.cpus", resources.cpuset_cpus))
    return out


def unenforced(resources: Any) -> str:
    """What a container asked for that a node without rights does not give; empty when nothing."""
    asked = []
    if resources.cpu_quota > 0:
        asked.append(f"CPU {resources.cpu_quota / (resources.cpu_period or PERIOD):g}")
    if resources.memory_limit_in_bytes > 0:
        asked.append(f"memory {resources.memory_limit_in_bytes >> 20} MiB")
    return f"limits not enforced (no cgroup rights): {', '.join(asked)}" if asked else ""


def usage(group: Group) -> tuple[int, int, int, int]:
    """CPU nanoseconds, bytes in all, working set (without what can be dropped), resident; zero for what is gone."""
    memory = group.folders["memory"]
    if group.unified:
        cpu = _table(memory / "cpu.stat").get("usage_usec", 0) * 1000
        total, table = _number(memory / "memory.current"), _table(memory / "memory.stat")
        return cpu, total, max(0, total - table.get("inactive_file", 0)), table.get("anon", 0)
    cpu = _number(group.folders["cpuacct"] / "cpuacct.usage") if "cpuacct" in group.folders else 0
    total, table = _number(memory / "memory.usage_in_bytes"), _table(memory / "memory.stat")
    return cpu, total, max(0, total - table.get("total_inactive_file", 0)), table.get("total_rss", 0)


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _table(path: Path) -> dict[str, int]:
    try:
        pairs = (line.split() for line in path.read_text().splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
    except OSError:
        return {}
