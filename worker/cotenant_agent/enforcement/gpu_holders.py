"""Which pods of this node hold which GPUs, until they are really gone. Pure: grants and processes in, holders out.

A pod that is bound here holds what its spec grants. If its object is deleted by force while its processes go on, it
stays a holder as long as the GPU or the host shows one of them. A process that uses a GPU without a grant is a
stranger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from cotenant_agent.enforcement.quota import TOLERANCE_PERCENT, PodGpu, PodQuota

UNKNOWN_S: Final = 60.0
"""If nothing shows what runs, a pod without an object holds its GPUs for its grace period and this time."""
STRANGER_POLLS: Final = 3
"""Polls in a row after which a stranger counts, as for a quota: a pod may be seen on a GPU before it is seen at the API
server.
"""
STRANGER_MIB: Final = 128
"""Outside pods, a process with less is a display or a tool of the driver. Programs that compute need more."""
HOLDERS_MAX: Final = 512
"""Holders in one status. A node runs some hundred pods; GPUs of further holders are not handed out."""


class Evidence(StrEnum):
    """What shows that a pod holds its GPUs."""

    POD = "Pod"
    """It is bound to this node and has not ended."""
    PROCESSES = "Processes"
    """Its object is gone, and processes of it still run on this node."""
    GPU = "GPU"
    """Its object is gone, and its processes are on a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHolder:
    grant: PodQuota
    since: float
    """Unix seconds."""
    evidence: Evidence
    left_at: float | None = None
    """When its object was found gone, or ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsOnNode:
    """Pods with a grant that are bound to this node, as the API server shows them."""

    grants: Mapping[str, PodQuota] = field(default_factory=dict)
    """Uid → grant of the pods that have not ended."""
    ended: frozenset[str] = frozenset()
    """Uids of the pods whose containers have all ended, by the kubelet's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrangerOnGpu:
    """A process on a GPU that was not granted to it."""

    pod_uid: str
    """Empty for a process outside pods."""
    gpu_uuid: str
    memory_mib: int
    reason: str
    since: float
    polls: int = 1


RunningPods: TypeAlias = Callable[[], frozenset[str] | None]
"""Uids of the pods with living processes on this node; None if that is unknown now."""
Holders: TypeAlias = Mapping[str, GpuHolder]
"""By uid of the pod."""
Usage: TypeAlias = Mapping[PodGpu, int]


def hold(before: Holders, pods: PodsOnNode, usage: Usage, running: RunningPods, now: float) -> Holders:
    """Holders of this poll. Processes are only looked for if a holder's pod is gone."""
    on_gpu = {one.pod_uid for one in usage}
    found: dict[str, GpuHolder] = {}
    for uid, grant in pods.grants.items():
        known = before.get(uid)
        found[uid] = GpuHolder(grant=grant, since=known.since if known else now, evidence=Evidence.POD)
    left = {uid: holder for uid, holder in before.items() if uid not in pods.grants}
    alive = running() if left else None
    for uid, holder in left.items():
        known_at = holder.left_at if holder.left_at is not None else now
        evidence = _evidence_after(uid, on_gpu, alive)
        if evidence is None and alive is None and uid not in pods.ended:
            patience_s = holder.grant.grace_s + UNKNOWN_S
            evidence = holder.evidence if now - known_at < patience_s else None
        if evidence is not None:
            found[uid] = replace(holder, evidence=evidence, left_at=known_at)
    return found


def _evidence_after(uid: str, on_gpu: set[str], alive: frozenset[str] | None) -> Evidence | None:
    """What shows that a pod without an object still holds its GPUs; None if nothing does."""
    if uid in on_gpu:
        return Evidence.GPU
    return Evidence.PROCESSES if alive is not None and uid in alive else None


def strangers(
    before: Iterable[StrangerOnGpu], usage: Usage, holders: Holders, now: float, claimed: Usage | None = None
) -> tuple[StrangerOnGpu, ...]:
    """Processes on GPUs that were not granted to them, counted in polls. A process that is missing in one poll starts
    again at one.

    `claimed` is the MiB of each GPU that claims of pods hold, also of pods that the operator did not make.
    """
    known = {PodGpu(one.pod_uid, one.gpu_uuid): one for one in before}
    found = []
    for on_gpu, mib in sorted(usage.items(), key=lambda item: (item[0].gpu_uuid, item[0].pod_uid)):
        if (reason := _strange(on_gpu, mib, holders, claimed or {})) is None:
            continue
        earlier = known.get(on_gpu)
        polls, since = (earlier.polls + 1, earlier.since) if earlier else (1, now)
        found.append(StrangerOnGpu(pod_uid=on_gpu.pod_uid, gpu_uuid=on_gpu.gpu_uuid, memory_mib=mib, reason=reason,
                                   since=since, polls=min(polls, STRANGER_POLLS)))  # fmt: skip
    return tuple(found)


def _strange(on_gpu: PodGpu, mib: int, holders: Holders, claimed: Usage) -> str | None:
    if not on_gpu.pod_uid:
        return f"processes outside pods use {mib} MiB" if mib >= STRANGER_MIB else None
    holder = holders.get(on_gpu.pod_uid)
    if holder is None and (most := claimed.get(on_gpu)) is not None:
        if mib * 100 <= most * TOLERANCE_PERCENT:
            return None
        return f"pod {on_gpu.pod_uid} uses {mib} MiB and its claim holds {most}"
    if holder is None:
        return f"pod {on_gpu.pod_uid} uses {mib} MiB and was granted no GPU"
    if on_gpu.gpu_uuid not in holder.grant.quota_mib:
        return f"pod {holder.grant.namespace}/{holder.grant.pod} uses {mib} MiB and was granted other GPUs"
    return None


def listed(holders: Holders) -> tuple[GpuHolder, ...]:
    """The oldest holders, as many as the status has room for."""
    return tuple(sorted(holders.values(), key=lambda one: (one.since, one.grant.pod_uid))[:HOLDERS_MAX])


def not_to_be_handed_out(holders: Holders, found: Iterable[StrangerOnGpu]) -> dict[str, str]:
    """GPU UUID → why it must not be handed out: a stranger, or a holder that the status has no room for."""
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.polls >= STRANGER_POLLS:
            reasons.setdefault(one.gpu_uuid, []).append(f"Stranger: {one.reason}")
    if len(holders) > HOLDERS_MAX:
        room = {one.grant.pod_uid for one in listed(holders)}
        for uid, holder in holders.items():
            for uuid in holder.grant.quota_mib if uid not in room else ():
                reasons[uuid] = [f"Unlisted: more than {HOLDERS_MAX} pods hold GPUs of this node"]
    return {uuid: "; ".join(texts) for uuid, texts in reasons.items()}
