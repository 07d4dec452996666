"""Limits of pods as they were read back: the state between polls, of memory and of compute alike. Pure.

If another limit is found twice in a row, that is a disagreement. It is published with the pod's limit, and this node
gets no more limits until it has booted, has another driver or toolkit, or an administrator lifts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Literal

from cotenant_agent.enforcement.quota import PodGpu

POLLS: Final = 2
"""Polls in a row after which another limit counts: a container may end between two looks at it."""


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

    @property
    def on_gpu(self) -> PodGpu:
        return PodGpu(self.pod_uid, self.gpu_uuid)


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


@dataclass(frozen=True, slots=True)
class Finding:
    """What one poll shows of one limit."""

    state: LimitState | None
    """None if there was nothing to look at; the last result then holds."""
    in_force: int | None = None
    problem: str = ""
    """What contradicts the limit; empty if nothing does."""


NOTHING_TO_SEE: Final = Finding(None)
NOT_KNOWN: Final = Finding(LimitState.UNKNOWN)


def judged(before: LimitsOfNode, seen: Iterable[tuple[DeviceLimit, str, Finding]]) -> LimitsOfNode:
    """The state after one poll. `seen`: every limit that is asked for, its pod in words, and what the poll shows."""
    known = {one.on_gpu: one for one in before.limits}
    limits: list[DeviceLimit] = []
    doubts, unread = dict[PodGpu, int](), dict[PodGpu, int]()
    wrong, verified = before.disagreement, before.verified
    for asked, pod, found in seen:
        on_gpu = asked.on_gpu
        limit = known.get(on_gpu, asked)
        doubted, missed = before.doubts.get(on_gpu, 0), before.unread.get(on_gpu, 0)
        if found.state is None:
            doubts[on_gpu], unread[on_gpu] = doubted, missed
        elif found.problem:
            doubts[on_gpu] = doubted + 1
        elif found.state is not LimitState.IN_FORCE:
            unread[on_gpu] = missed + 1
        if found.state is not None and (doubts.get(on_gpu) or unread.get(on_gpu) or POLLS) >= POLLS:
            limit = replace(limit, state=found.state, in_force=found.in_force)
            verified = verified or (found.state is LimitState.IN_FORCE and not found.problem)
            if found.problem:
                wrong = wrong or f"pod {pod} on {on_gpu.gpu_uuid}: {found.problem}"
        limits.append(limit)
    was = {one.on_gpu for one in before.limits if one.state is LimitState.IN_FORCE}
    lost = any(one.state is not LimitState.IN_FORCE and one.on_gpu in was for one in limits)
    return LimitsOfNode(tuple(limits), doubts, unread, verified and not wrong and not lost, wrong)
