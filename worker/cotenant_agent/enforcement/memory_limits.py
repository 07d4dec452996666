"""Compares the memory limits that pods asked for with those that the driver has. Pure.

A pod asks by two variables of its spec. The hook of NVIDIA's container toolkit sets the limit before the container
starts. If another limit is found twice in a row, that is a disagreement. It is published with the pod's limit, and this
node gets no more limits until it has booted, has another driver or toolkit, or an administrator lifts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal, TypeAlias

from cotenant_agent.enforcement.quota import PodGpu, PodQuota
from cotenant_agent.gpus.readings import AskedLimit, LimitReading

POLLS: Final = 2
"""Polls in a row after which another limit counts: a container may end between two looks at its cgroup."""
PAGE_MIB: Final = 2
"""Largest page of GPU memory. The driver may round a limit by less than this."""


class LimitState(StrEnum):
    IN_FORCE = "InForce"
    ABSENT = "Absent"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimit:
    """Amounts are MiB of memory, or milli-GPU of compute."""

    pod_uid: str
    gpu_uuid: str
    wanted: int
    dimension: Literal["Memory", "Compute"] = "Memory"
    state: LimitState = LimitState.UNKNOWN
    in_force: int | None = None


@dataclass(frozen=True, slots=True)
class LimitsOfNode:
    """The state between polls."""

    limits: tuple[DeviceLimit, ...] = ()
    doubts: Mapping[PodGpu, int] = field(default_factory=dict)
    """Disagreement → polls in a row. A poll that could not read ends the row."""
    unread: Mapping[PodGpu, int] = field(default_factory=dict)
    """Limits that could not be read → polls in a row."""
    verified: bool = False
    """True if the last limit that was asked for and read was in force."""
    disagreement: str = ""
    """Why this node gets no limits any more; empty if it does."""


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
    read = {PodGpu(one.pod_uid, one.gpu_uuid): found for one, found in readings}
    known = {PodGpu(one.pod_uid, one.gpu_uuid): one for one in before.limits}
    limits: list[DeviceLimit] = []
    doubts, unread = dict[PodGpu, int](), dict[PodGpu, int]()
    wrong, verified = before.disagreement, before.verified
    for on_gpu, grant, wanted in _with_limits(grants):
        limit = known.get(on_gpu, DeviceLimit(pod_uid=grant.pod_uid, gpu_uuid=on_gpu.gpu_uuid, wanted=wanted))
        if on_gpu in read:
            found = read[on_gpu]
            problem = _disagreement(found, limit.wanted) if found is not None else ""
            if found is None:
                unread[on_gpu] = before.unread.get(on_gpu, 0) + 1
            elif problem:
                doubts[on_gpu] = before.doubts.get(on_gpu, 0) + 1
            if (doubts.get(on_gpu) or unread.get(on_gpu) or POLLS) >= POLLS:
                limit, verified = _with_reading(limit, found), verified or (found is not None and not problem)
                if problem:
                    wrong = wrong or f"pod {grant.namespace}/{grant.pod} on {on_gpu.gpu_uuid}: {problem}"
        limits.append(limit)
    was = {PodGpu(one.pod_uid, one.gpu_uuid) for one in before.limits if one.state is LimitState.IN_FORCE}
    lost = any(one.state is LimitState.UNKNOWN and PodGpu(one.pod_uid, one.gpu_uuid) in was for one in limits)
    return LimitsOfNode(tuple(limits), doubts, unread, verified and not wrong and not lost, wrong)


def _with_limits(grants: Mapping[str, PodQuota]) -> Iterable[tuple[PodGpu, PodQuota, int]]:
    """Every GPU of the pods that ask for a limit, with that limit, sorted."""
    for grant in sorted(grants.values(), key=lambda one: one.pod_uid):
        if grant.limit_mib is not None:
            for uuid in sorted(grant.quota_mib):
                yield PodGpu(grant.pod_uid, uuid), grant, grant.limit_mib


def _with_reading(limit: DeviceLimit, found: LimitReading | None) -> DeviceLimit:
    if found is None:
        return replace(limit, state=LimitState.UNKNOWN, in_force=None)
    state = LimitState.ABSENT if found.hard_mib is None else LimitState.IN_FORCE
    return replace(limit, state=state, in_force=found.hard_mib)


def _disagreement(found: LimitReading, wanted_mib: int) -> str:
    if found.hard_mib is None:
        return f"a limit of {wanted_mib} MiB was asked for, and there is none"
    if abs(found.hard_mib - wanted_mib) >= PAGE_MIB:
        return f"a limit of {wanted_mib} MiB was asked for, and it is {found.hard_mib} MiB"
    if found.used_mib is not None and found.used_mib > found.hard_mib + PAGE_MIB:
        return f"{found.used_mib} MiB are used under a limit of {found.hard_mib} MiB"
    return ""
