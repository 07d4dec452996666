"""Compares the shares of compute that pods were given with what MPS shows. Pure.

A share is enforced if all of this was read back: its GPU accepts one process only, which is the MPS server, so that
nothing computes beside it; its namespace has the share as its ceiling; and every process of the pod on that GPU is a
client in that namespace. If one of these cannot be seen, no level is claimed. If one is contradicted twice in a row,
that is a disagreement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cotenant_agent.enforcement.memory_limits import POLLS, DeviceLimit, LimitsOfNode, LimitState
from cotenant_agent.enforcement.quota import PodGpu

STEP_MILLI: Final = 10
"""MPS counts in percent. A smaller difference between ceiling and share does not count."""


@dataclass(frozen=True, slots=True)
class AskedShare:
    """Share of one GPU's compute that a claim gives to a pod."""

    pod_uid: str
    gpu_uuid: str
    namespace: str
    compute_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonReading:
    """Answers of one GPU's daemon."""

    server_pid: int
    """PID of the MPS server, which is on the GPU itself and in no namespace."""
    percents: Mapping[str, int] = field(default_factory=dict)
    """Namespace → its ceiling."""
    clients: Mapping[int, str] = field(default_factory=dict)
    """PID → namespace."""
    expected: frozenset[str] = frozenset()
    """Namespaces that the daemon had to have when it was asked. A share given since is in the next reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOccupants:
    """Processes on one GPU, as the driver shows them."""

    exclusive: bool | None = None
    """True if the GPU accepts one process only; None if the driver does not show it."""
    pids_by_pod: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By uid of the pod; none of the server of MPS."""

    @property
    def pids(self) -> frozenset[int]:
        return frozenset(pid for found in self.pids_by_pod.values() for pid in found)


@dataclass(frozen=True, slots=True)
class _Finding:
    state: LimitState | None
    """None if there was nothing to look at; the last result then holds."""
    in_force: int | None = None
    problem: str = ""


NOTHING_TO_SEE: Final = _Finding(None)
NOT_KNOWN: Final = _Finding(LimitState.UNKNOWN)


def evaluate(
    before: LimitsOfNode,
    asked: Iterable[AskedShare],
    readings: Mapping[str, DaemonReading],
    occupants: Mapping[str, GpuOccupants],
    *,
    fresh: bool = True,
) -> LimitsOfNode:
    """Evaluate one poll; `readings` and `occupants` by GPU UUID. `fresh` is true if these readings were not judged
    before.

    A reading is judged once. A program that began after it is in the next reading before it can count as running beside
    MPS.
    """
    known = {PodGpu(one.pod_uid, one.gpu_uuid): one for one in before.limits}
    limits: list[DeviceLimit] = []
    doubts, unread = dict[PodGpu, int](), dict[PodGpu, int]()
    wrong = before.disagreement
    for share in asked:
        on_gpu = PodGpu(share.pod_uid, share.gpu_uuid)
        limit = known.get(on_gpu) or DeviceLimit(
            pod_uid=share.pod_uid, gpu_uuid=share.gpu_uuid, wanted=share.compute_milli, dimension="Compute"
        )
        here = occupants.get(share.gpu_uuid, GpuOccupants())
        found = _finding(share, readings.get(share.gpu_uuid), here) if fresh else NOTHING_TO_SEE
        if found.state is None:
            doubts[on_gpu], unread[on_gpu] = before.doubts.get(on_gpu, 0), before.unread.get(on_gpu, 0)
        elif found.problem:
            doubts[on_gpu] = before.doubts.get(on_gpu, 0) + 1
        elif found.state is not LimitState.IN_FORCE:
            unread[on_gpu] = before.unread.get(on_gpu, 0) + 1
        if found.state is not None and (doubts.get(on_gpu) or unread.get(on_gpu) or POLLS) >= POLLS:
            limit = replace(limit, state=found.state, in_force=found.in_force)
            if found.problem:
                wrong = wrong or f"pod {share.pod_uid} on {share.gpu_uuid}: {found.problem}"
        limits.append(limit)
    return LimitsOfNode(tuple(limits), doubts, unread, _verified(before, limits) and not wrong, wrong)


def _verified(before: LimitsOfNode, limits: list[DeviceLimit]) -> bool:
    """True if the share was enforced at the last look that was possible. A share that can no longer be seen is not."""
    was = {PodGpu(one.pod_uid, one.gpu_uuid) for one in before.limits if one.state is LimitState.IN_FORCE}
    lost = any(one.state is not LimitState.IN_FORCE and PodGpu(one.pod_uid, one.gpu_uuid) in was for one in limits)
    held = any(one.state is LimitState.IN_FORCE for one in limits)
    return not lost and (held or before.verified)


def _finding(share: AskedShare, reading: DaemonReading | None, here: GpuOccupants) -> _Finding:
    if reading is None:
        return NOT_KNOWN
    ceiling = reading.percents.get(share.namespace)
    if ceiling is None and share.namespace not in reading.expected:
        return NOTHING_TO_SEE
    if ceiling is None:
        text = f"a share of {share.compute_milli} milli-GPU was given, and MPS has no namespace for it"
        return _Finding(LimitState.ABSENT, problem=text)
    in_force = ceiling * STEP_MILLI
    if abs(in_force - share.compute_milli) >= STEP_MILLI:
        text = f"a share of {share.compute_milli} milli-GPU was given, and MPS lets its clients have {in_force}"
        return _Finding(LimitState.IN_FORCE, in_force, text)
    mine = here.pids_by_pod.get(share.pod_uid, frozenset())
    if not mine:
        return NOTHING_TO_SEE
    if not here.exclusive:
        return NOT_KNOWN
    elsewhere = sorted(pid for pid in mine if reading.clients.get(pid, share.namespace) != share.namespace)
    if elsewhere:
        text = f"its process {elsewhere[0]} is in namespace {reading.clients[elsewhere[0]] or 'of nobody'}"
        return _Finding(LimitState.ABSENT, problem=text)
    if beside := sorted(mine - reading.clients.keys()):
        if reading.clients.keys() - here.pids:
            return NOT_KNOWN  # the daemon numbers processes in another way than the driver
        return _Finding(LimitState.ABSENT, problem=f"its process {beside[0]} computes beside MPS")
    return _Finding(LimitState.IN_FORCE, in_force)
