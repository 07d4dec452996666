"""Limits of containers, in both versions of cgroups. Without cgroup rights on the node nothing is limited.

One group per container below one per pod: `<parent>/<pod>/<container>`. Version 1 has that path once per controller.
"""

import contextlib
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_local.runtime.isolation.cgroup_settings import LimitError, is_moot, settings

log = logging.getLogger(__name__)
ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "memory", "pids", "hugetlb")
REMOVE_DEADLINE_S: Final = 1.0


@dataclass(frozen=True)
class ContainerCgroup:
    """The folders of one container: one per controller in version 1, one in version 2."""

    folders: dict[str, Path]
    unified: bool

    def files(self, name: str = "cgroup.procs") -> list[str]:
        return [str(folder / name) for folder in dict.fromkeys(self.folders.values())]

    @property
    def oom_file(self) -> str:
        return str(self.folders["memory"] / ("memory.events" if self.unified else "memory.oom_control"))

    def remove(self) -> None:
        _remove(self.folders.values())

    def shown(self) -> list[dict[str, Any]]:
        """Binds that let programs read their own limits, at the usual place."""
        if self.unified:
            return [_shown(self.folders["memory"], ROOT)]
        return [_shown(folder, ROOT / name) for name, folder in self.folders.items()]


def _shown(source: Path, target: Path) -> dict[str, Any]:
    return {"source": str(source), "target": str(target), "readonly": True, "recursive_readonly": True}


class NodeCgroups:
    """The node's part of the hierarchy. Falsy when there is none."""

    def __init__(self, parent: str | None, root: Path = ROOT) -> None:
        self.parent = parent
        self.root = root
        self.unified = (root / "cgroup.controllers").exists()
        if parent is None:
            log.warning("no cgroup rights: limits of CPU and memory are not enforced on this node")
        elif self.unified:
            _delegate(Path(parent))

    def __bool__(self) -> bool:
        return self.parent is not None

    def make(self, pod: str, container: str, resources: Any) -> ContainerCgroup:
        """The container's group with its limits; raises LimitError."""
        folders = {name: top / pod / container for name, top in self._tops().items()}
        for folder in dict.fromkeys(folders.values()):
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                if self.unified:
                    _delegate(folder.parent)
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise LimitError(f"cgroup {folder}: {error.strerror}") from error
        group = ContainerCgroup(folders, self.unified)
        apply(group, resources)
        return group

    def remove(self, pod: str) -> None:
        """The pod's group, if its containers' are gone."""
        if self.parent is not None:
            _remove(top / pod for top in self._tops().values())

    def _tops(self) -> dict[str, Path]:
        """The node's folder by controller: in version 2 one for all, which may have controllers of a later kernel."""
        assert self.parent is not None
        if self.unified:
            available = (self.root / "cgroup.controllers").read_text().split()
            return dict.fromkeys((*CONTROLLERS, *available), Path(self.parent))
        there = (name for name in CONTROLLERS if (self.root / name).is_dir())
        return {name: self.root / name / self.parent.strip("/") for name in there}


def _remove(folders: Iterable[Path]) -> None:
    """Removes cgroups. The last process in one may still be on its way out."""
    for folder in dict.fromkeys(folders):
        deadline = time.monotonic() + REMOVE_DEADLINE_S
        while folder.is_dir() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.005)


def _delegate(folder: Path) -> None:
    """Gives every controller of `folder` to the groups below it."""
    folder.mkdir(parents=True, exist_ok=True)
    available = (folder / "cgroup.controllers").read_text().split()
    wanted = [f"+{name}" for name in (*CONTROLLERS, "cpuset") if name in available]
    (folder / "cgroup.subtree_control").write_text(" ".join(wanted))


def apply(group: ContainerCgroup, resources: Any) -> None:
    """Writes the limits; raises LimitError. In an order that the kernel accepts, whether they grow or shrink."""
    refused = []
    for setting in settings(resources, unified=group.unified):
        controller, name, value = setting
        path = group.folders[controller] / name if controller in group.folders else None
        if path is None or not path.exists():
            if is_moot(setting):
                continue
            raise LimitError(f"{name}={value}: the {controller} controller of this machine does not have it")
        try:
            path.write_text(value)
        except OSError:
            refused.append((path, value))  # memory with swap may never be less than memory: the other one first
    for path, value in refused:
        try:
            path.write_text(value)
        except OSError as error:
            raise LimitError(f"{path}={value}: {error.strerror}") from error


def usage(group: ContainerCgroup) -> tuple[int, int, int, int]:
    """CPU nanoseconds, bytes in all, working set (without droppable pages), resident; zeros if it is gone."""
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
