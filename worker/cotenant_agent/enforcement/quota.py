"""Finds pods that use more GPU memory than was granted. Pure: grants and use in, violations out; the operator acts.

A pod is over on a GPU if it uses more than its quota × 1.05. Three polls in a row make a violation, because two
processes may overlap for a moment. The violation ends when use is back at the quota or below, or the pod is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from cotenant.contract import Contract, ContractError
from cotenant.names import CONTAINER, DRA_DRIVER, ENV_CONTRACT, ENV_MEMORY_LIMIT, ENV_MEMORY_REQUEST

TOLERANCE_PERCENT: Final = 105
POLLS: Final = 3
GRACE_MAX_S: Final = 3600
"""A longer grace period of a pod is not believed."""


@dataclass(frozen=True, slots=True)
class PodGpu:
    pod_uid: str
    gpu_uuid: str


Usage: TypeAlias = Mapping[PodGpu, int]
"""MiB, as the driver counts: context and NCCL included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodQuota:
    """What the operator granted to one pod of this node."""

    pod_uid: str
    namespace: str
    pod: str
    quota_mib: Mapping[str, int]
    """GPU UUID → MiB, all ranks of the pod together."""
    compute_milli: Mapping[str, int] = field(default_factory=dict)
    """GPU UUID → milli-GPU of compute, all ranks of the pod together."""
    job: str = ""
    job_uid: str = ""
    attempt: int = 0
    node_rank: int = 0
    grace_s: int = 0
    """Seconds between SIGTERM and SIGKILL of the pod."""
    limit_mib: int | None = None
    """Limit of memory on each of its GPUs that it asks the container toolkit for; None if it asks for none."""
    container: str = ""
    """ID of its container; empty before it runs."""
    claimed: bool = False
    """True if it has ResourceClaims, by which the kube-scheduler counts what it holds."""
    requests_shares: bool = False
    """True if it requests shares of its GPUs, by which the kubelet counts what it holds."""


@dataclass(frozen=True, slots=True)
class Excess:
    """The time that a pod has been over its quota on one GPU: state between polls."""

    polls: int
    since: float
    used_mib: int
    quota_mib: int


@dataclass(frozen=True, slots=True)
class QuotaViolation:
    pod_uid: str
    gpu_uuid: str
    memory_mib: int
    quota_mib: int
    since: float


Excesses: TypeAlias = Mapping[PodGpu, Excess]


def grant_of(pod: Mapping[str, Any]) -> PodQuota | None:
    """Grant of a managed pod as the API server shows it; None if its contract is missing or cannot be read."""
    containers = (pod.get("spec") or {}).get("containers") or []
    launchers = [one for one in containers if one.get("name") == CONTAINER]  # what else a pod has is granted nothing
    env = {e["name"]: e.get("value") or "" for one in launchers for e in one.get("env") or []}
    metadata = pod.get("metadata") or {}
    if not env.get(ENV_CONTRACT):
        return None
    try:
        contract = Contract.from_environment(env)
        mine = contract.pods[contract.node_rank]
    except (ContractError, IndexError):
        return None
    quota: dict[str, int] = {}
    compute: dict[str, int] = {}
    for rank in mine.ranks:
        for gpu in rank.gpus:
            quota[gpu.uuid] = quota.get(gpu.uuid, 0) + gpu.memory_mib
            compute[gpu.uuid] = compute.get(gpu.uuid, 0) + gpu.compute_milli
    return PodQuota(
        pod_uid=metadata["uid"],
        namespace=metadata["namespace"],
        pod=metadata["name"],
        quota_mib=quota,
        compute_milli=compute,
        job=contract.job,
        job_uid=contract.uid,
        attempt=contract.attempt,
        node_rank=contract.node_rank,
        grace_s=min(contract.grace_s, GRACE_MAX_S),
        limit_mib=asked_limit(env),
        container=running_container(pod.get("status") or {}),
        claimed=bool(pod["spec"].get("resourceClaims")),
        requests_shares=any(name.startswith(f"{DRA_DRIVER}/") for one in launchers for name in requests_of(one)),
    )


def requests_of(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get("requests") or {}


def asked_limit(env: Mapping[str, str]) -> int | None:
    """MiB that the toolkit's hook reads. The hook needs both variables, and limits nothing with only one."""
    both = [env.get(name, "") for name in (ENV_MEMORY_REQUEST, ENV_MEMORY_LIMIT)]
    return int(both[1]) if all(text.isascii() and text.isdigit() for text in both) else None


def running_container(status: Mapping[str, Any]) -> str:
    """ID of the launcher's container while it runs, from `containerd://<64 hex digits>`."""
    for one in status.get("containerStatuses") or ():
        if one.get("name") == CONTAINER and "running" in (one.get("state") or {}):
            return str(one.get("containerID") or "").rpartition("/")[2]
    return ""


def evaluate(
    excesses: Excesses, usage: Usage, grants: Mapping[str, PodQuota], now: float
) -> tuple[Excesses, tuple[QuotaViolation, ...]]:
    """Evaluate one poll. Only pods with a grant can violate it; others are foreign, which is reported only."""
    over: dict[PodGpu, Excess] = {}
    for on_gpu, used in usage.items():
        grant = grants.get(on_gpu.pod_uid)
        if grant is None:
            continue
        quota = grant.quota_mib.get(on_gpu.gpu_uuid, 0)
        if quota == 0 and on_gpu.gpu_uuid in grant.quota_mib:
            continue  # a whole GPU whose driver does not show its memory
        before = excesses.get(on_gpu)
        violating = before is not None and before.polls >= POLLS
        if used * 100 > quota * TOLERANCE_PERCENT or (violating and used > quota):
            polls, since = (before.polls + 1, before.since) if before else (1, now)
            over[on_gpu] = Excess(polls, since, used, quota)
    violations = tuple(
        QuotaViolation(on_gpu.pod_uid, on_gpu.gpu_uuid, excess.used_mib, excess.quota_mib, excess.since)
        for on_gpu, excess in sorted(over.items(), key=lambda item: (item[0].pod_uid, item[0].gpu_uuid))
        if excess.polls >= POLLS
    )
    return over, violations
