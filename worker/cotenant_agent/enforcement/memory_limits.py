"""Compares the memory limits that pods asked for with those that the driver has. Pure.

A pod asks by two variables of its spec. The hook of NVIDIA's container toolkit sets the limit before the container
starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from cotenant_agent.enforcement.quota import PodGpu, PodQuota
from cotenant_agent.enforcement.read_back import (
    NOT_KNOWN,
    NOTHING_TO_SEE,
    DeviceLimit,
    Finding,
    LimitsOfNode,
    LimitState,
    judged,
)
from cotenant_agent.gpus.readings import AskedLimit, LimitReading

PAGE_MIB: Final = 2
"""Largest page of GPU memory. The driver may round a limit by less than this."""
Readings: TypeAlias = Iterable[tuple[AskedLimit, LimitReading | None]]


def asked(grants: Iterable[PodQuota], leaf: Callable[[str], Path | None]) -> tuple[AskedLimit, ...]:
    """Limits that these pods ask for, each with the cgroup of its container. A container without a cgroup has
    none yet.
    """
    found = []
    for grant in grants:
        if grant.limit_mib is None or not grant.container or (path := leaf(grant.container)) is None:
            continue
        found += [AskedLimit(grant.pod_uid, uuid, str(path)) for uuid in sorted(grant.quota_mib)]
    return tuple(found)


def evaluate(before: LimitsOfNode, grants: Mapping[str, PodQuota], readings: Readings) -> LimitsOfNode:
    """Evaluate one poll. If a container cannot be read (not yet or no longer there), the last result stays."""
    return judged(before, _seen(grants, {PodGpu(one.pod_uid, one.gpu_uuid): found for one, found in readings}))


def _seen(
    grants: Mapping[str, PodQuota], read: Mapping[PodGpu, LimitReading | None]
) -> Iterator[tuple[DeviceLimit, str, Finding]]:
    """Every GPU of the pods that ask for a limit, sorted."""
    for grant in sorted(grants.values(), key=lambda one: one.pod_uid):
        for uuid in sorted(grant.quota_mib) if grant.limit_mib is not None else ():
            limit = DeviceLimit(pod_uid=grant.pod_uid, gpu_uuid=uuid, wanted=grant.limit_mib or 0)
            found = _finding(read[limit.on_gpu], limit.wanted) if limit.on_gpu in read else NOTHING_TO_SEE
            yield limit, f"{grant.namespace}/{grant.pod}", found


def _finding(found: LimitReading | None, wanted_mib: int) -> Finding:
    if found is None:
        return NOT_KNOWN
    state = LimitState.ABSENT if found.hard_mib is None else LimitState.IN_FORCE
    return Finding(state, found.hard_mib, _disagreement(found, wanted_mib))


def _disagreement(found: LimitReading, wanted_mib: int) -> str:
    if found.hard_mib is None:
        return f"a limit of {wanted_mib} MiB was asked for, and there is none"
    if abs(found.hard_mib - wanted_mib) >= PAGE_MIB:
        return f"a limit of {wanted_mib} MiB was asked for, and it is {found.hard_mib} MiB"
    if found.used_mib is not None and found.used_mib > found.hard_mib + PAGE_MIB:
        return f"{found.used_mib} MiB are used under a limit of {found.hard_mib} MiB"
    return ""
