"""The hook of NVIDIA's container toolkit that limits GPU memory, played on a stand-in for the driver.

As far as it is known how toolkit 1.20.1 behaves: it reads two variables of the container, does nothing when one of them
is missing, knows one limit for all GPUs of the container, and fails the container when the driver is too old. The
driver is a folder: `state` has its GPUs and limits, one per line, as the library that the tests build reads them, and
`sys/fs/cgroup` the tree in which it keeps them. A soft limit is added to the parents and, when a container ends, stays.
Faults are asked for in the file `faults`: `missing`, `limit <MiB>`, `other-gpu`, `old-driver`, one per line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
REQUEST: Final = "NVIDIA_GPU_MEMORY_REQUEST"
LIMIT: Final = "NVIDIA_GPU_MEMORY_LIMIT"
MIB: Final = 1 << 20


class HookError(RuntimeError):
    """The hook failed, and the container with it."""


@dataclass(frozen=True, slots=True)
class MemoryLimitHook:
    folder: Path

    def create_runtime(self, env: Mapping[str, str], pod_uid: str, container: str) -> None:
        """Limit a container that is made; raises HookError."""
        leaf = self._leaf(pod_uid, container)
        leaf.mkdir(parents=True, exist_ok=True)
        faults = _lines(self.folder / "faults")
        if not (env.get(REQUEST) and env.get(LIMIT)) or "missing" in faults:
            return
        request, limit = int(env[REQUEST]), int(env[LIMIT])
        if "old-driver" in faults:
            raise HookError("apply-cuda-memory-limits: the driver has no nvmlDeviceSetMemoryLimits_v1")
        if request > limit:
            raise HookError(f"apply-cuda-memory-limits: request {request} MiB is more than limit {limit} MiB")
        for fault in faults:
            if fault.startswith("limit "):
                limit = int(fault.split()[1])
        for index in self._gpus(env.get(VISIBLE, ""), others="other-gpu" in faults):
            self._set(index, leaf, request, limit)

    def post_stop(self, container: str) -> None:
        """The kernel removes the leaf of a container that has ended; what the driver added to its parents stays."""
        for leaf in (self.folder / "sys/fs/cgroup/kubepods").glob(f"*/{container}"):
            kept = [line for line in _lines(self.folder / "state") if f" {leaf} " not in line]
            (self.folder / "state").write_text("".join(f"{line}\n" for line in kept))
            leaf.rmdir()

    def _leaf(self, pod_uid: str, container: str) -> Path:
        return self.folder / "sys/fs/cgroup/kubepods" / f"pod{pod_uid}" / container

    def _gpus(self, visible: str, *, others: bool) -> Iterable[int]:
        named = {name.strip() for name in visible.split(",")}
        for line in _lines(self.folder / "state"):
            key, _, rest = line.partition(" ")
            if key == "gpu":
                index, _, description = rest.partition(" ")
                if (description.partition("|")[0] in named) is not others:
                    yield int(index)

    def _set(self, index: int, leaf: Path, request: int, limit: int) -> None:
        """Set both limits of the leaf, and add the soft one to its parents."""
        kept, reserved = [], dict.fromkeys(map(str, [leaf.parent, leaf.parent.parent]), request)
        for line in _lines(self.folder / "state"):
            fields = line.split()
            if fields[:2] == ["limit", str(index)] and fields[2] in reserved:
                reserved[fields[2]] += int(fields[3]) // MIB
            elif fields[:3] != ["limit", str(index), str(leaf)]:
                kept.append(line)
        kept += [f"limit {index} {parent} {soft * MIB} max 0" for parent, soft in reserved.items()]
        kept.append(f"limit {index} {leaf} {request * MIB} {limit * MIB} 0")
        (self.folder / "state").write_text("".join(f"{line}\n" for line in kept))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []
