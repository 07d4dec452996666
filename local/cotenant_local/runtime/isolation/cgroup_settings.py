"""A container's limits as files of cgroups, version 1 and version 2. Pure.

The kubelet gives them in version 1's terms; the weights of version 2 follow its own conversion (KEP-2254).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

DEFAULT_PERIOD_US: Final = 100_000
SWAP = ("memory.memsw.limit_in_bytes", "memory.swap.max")
"""A kernel without accounting of swap lacks these files."""
DEFAULTS = ("memory.oom.group", "memory.swap.max")
"""Settings that the kubelet sends in version 2 though the pod has none."""
Setting = tuple[str, str, str]
"""Controller, file, value."""


class LimitError(Exception):
    """A limit cannot be given; the message names the file and the value."""


def settings(resources: Any, *, unified: bool) -> list[Setting]:
    """Every limit that is set; zero means unlimited, as in the kubelet's messages. Raises LimitError."""
    return [*(_settings_v2(resources) if unified else _settings_v1(resources)), *_hugepages(resources, unified=unified)]


def _settings_v2(resources: Any) -> Iterator[Setting]:
    quota, memory, swap = resources.cpu_quota, resources.memory_limit_in_bytes, resources.memory_swap_limit_in_bytes
    if resources.cpu_shares:
        weight = 1 + (max(2, min(262144, resources.cpu_shares)) - 2) * 9999 // 262142
        yield "cpu", "cpu.weight", str(weight)
    if quota:
        yield "cpu", "cpu.max", f"{quota if quota > 0 else 'max'} {resources.cpu_period or DEFAULT_PERIOD_US}"
    if memory:
        yield "memory", "memory.max", str(memory) if memory > 0 else "max"
    if swap:  # the interface's figure is of memory and swap together
        yield "memory", "memory.swap.max", str(max(0, swap - max(0, memory))) if swap > 0 else "max"
    if resources.cpuset_cpus:
        yield "cpuset", "cpuset.cpus", resources.cpuset_cpus
    if resources.cpuset_mems:
        yield "cpuset", "cpuset.mems", resources.cpuset_mems
    for name, value in sorted(resources.unified.items()):
        yield name.split(".")[0], name, value


def _settings_v1(resources: Any) -> Iterator[Setting]:
    if resources.cpu_shares:
        yield "cpu", "cpu.shares", str(resources.cpu_shares)
    if resources.cpu_quota:
        yield "cpu", "cpu.cfs_period_us", str(resources.cpu_period or DEFAULT_PERIOD_US)
        yield "cpu", "cpu.cfs_quota_us", str(resources.cpu_quota)
    if resources.memory_limit_in_bytes:
        yield "memory", "memory.limit_in_bytes", str(resources.memory_limit_in_bytes)
    if resources.memory_swap_limit_in_bytes:
        yield "memory", "memory.memsw.limit_in_bytes", str(resources.memory_swap_limit_in_bytes)
    if resources.cpuset_cpus or resources.cpuset_mems:
        raise LimitError("CPUs and memory nodes of a container are chosen with version 2 of cgroups only")
    for name, value in resources.unified.items():
        raise LimitError(f"{name}={value}: this machine has version 1 of cgroups")


def _hugepages(resources: Any, *, unified: bool) -> Iterator[Setting]:
    for limit in resources.hugepage_limits:
        name = f"hugetlb.{limit.page_size}." + ("max" if unified else "limit_in_bytes")
        yield "hugetlb", name, str(limit.limit)


def unenforced(resources: Any) -> str:
    """Limits of a container that a node without rights does not enforce; empty when there are none."""
    asked = []
    if resources.cpu_quota > 0:
        asked.append(f"CPU {resources.cpu_quota / (resources.cpu_period or DEFAULT_PERIOD_US):g}")
    if resources.memory_limit_in_bytes > 0:
        asked.append(f"memory {resources.memory_limit_in_bytes >> 20} MiB")
    if resources.cpuset_cpus or resources.cpuset_mems:
        asked.append(f"CPUs {resources.cpuset_cpus or 'all'} on memory nodes {resources.cpuset_mems or 'all'}")
    asked += [f"{page.limit >> 20} MiB of {page.page_size} pages" for page in resources.hugepage_limits if page.limit]
    asked += [f"{name}={value}" for name, value in sorted(resources.unified.items()) if name not in DEFAULTS]
    return f"limits not enforced (no cgroup rights): {', '.join(asked)}" if asked else ""


def is_moot(setting: Setting) -> bool:
    """True if a limit whose file is missing has nothing to limit on this machine."""
    controller, name, value = setting
    if name in SWAP:
        return len(Path("/proc/swaps").read_text().splitlines()) < 2
    return controller == "hugetlb" and value == "0"  # the kubelet sends it for every pod that asks for none
