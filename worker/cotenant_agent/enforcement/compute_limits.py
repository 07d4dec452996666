"""Compares the shares of compute that pods were given with what MPS shows. Pure.

A share is enforced if all of this was read back: its GPU accepts one process only, which is the MPS server, so that
nothing computes beside it; its namespace has the share as its ceiling; and every process of the pod on that GPU is a
client in that namespace. If one of these cannot be seen, no level is claimed. If one is contradicted twice in a row,
that is a disagreement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cotenant_agent.enforcement.read_back import (
    NOT_KNOWN,
    NOTHING_TO_SEE,
    DeviceLimit,
    Finding,
    LimitsOfNode,
    LimitState,
    judged,
)

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
    seen = []
    for share in asked:
        uuid = share.gpu_uuid
        limit = DeviceLimit(pod_uid=share.pod_uid, gpu_uuid=uuid, wanted=share.compute_milli, dimension="Compute")
        here = occupants.get(uuid, GpuOccupants())
        found = _finding(share, readings.get(uuid), here) if fresh else NOTHING_TO_SEE
        seen.append((limit, share.pod_uid, found))
    return judged(before, seen)


def _finding(share: AskedShare, reading: DaemonReading | None, here: GpuOccupants) -> Finding:
    if reading is None:
        return NOT_KNOWN
    ceiling = reading.percents.get(share.namespace)
    if ceiling is None and share.namespace not in reading.expected:
        return NOTHING_TO_SEE
    if ceiling is None:
        text = f"a share of {share.compute_milli} milli-GPU was given, and MPS has no namespace for it"
        return Finding(LimitState.ABSENT, problem=text)
    in_force = ceiling * STEP_MILLI
    if abs(in_force - share.compute_milli) >= STEP_MILLI:
        text = f"a share of {share.compute_milli} milli-GPU was given, and MPS lets its clients have {in_force}"
        return Finding(LimitState.IN_FORCE, in_force, text)
    mine = here.pids_by_pod.get(share.pod_uid, frozenset())
    if not mine:
        return NOTHING_TO_SEE
    if not here.exclusive:
        return NOT_KNOWN
    elsewhere = sorted(pid for pid in mine if reading.clients.get(pid, share.namespace) != share.namespace)
    if elsewhere:
        text = f"its process {elsewhere[0]} is in namespace {reading.clients[elsewhere[0]] or 'of nobody'}"
        return Finding(LimitState.ABSENT, problem=text)
    if beside := sorted(mine - reading.clients.keys()):
        if reading.clients.keys() - here.pids:
            return NOT_KNOWN  # the daemon numbers processes in another way than the driver
        return Finding(LimitState.ABSENT, problem=f"its process {beside[0]} computes beside MPS")
    return Finding(LimitState.IN_FORCE, in_force)
