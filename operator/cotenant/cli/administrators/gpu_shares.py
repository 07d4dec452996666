"""Which job holds which share of which GPU, read from the GPUNodes that the agents write. Pure: documents in, values
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from cotenant.api.scalars.agent_reports import heard_at, silent_after_s

Document: TypeAlias = Mapping[str, Any]
WHOLE = 1000
SILENT: Final = "Silent"
"""State of a node whose agent is not heard: what it reported last is not shown as current use."""


@dataclass(frozen=True, slots=True)
class GpuShare:
    """The share of one GPU that one job holds."""

    job: str
    """The job, as `namespace/name`."""
    milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """One GPU as its agent last reported it."""

    node: str
    index: int
    uuid: str
    gpu_class: str
    memory_mib: int
    healthy: bool
    health: str
    node_state: str
    """State of the node: `Ready`, `Cordoned`, `Tainted`, `NotReady` or `Silent`."""
    utilization: int | None
    """Utilisation in the last sample, in percent; None if nothing was measured, as on simulated GPUs."""
    used_mib: int | None
    shares: tuple[GpuShare, ...]
    strangers: int = 0
    """Processes on the GPU without a grant."""
    is_simulated: bool = False

    @property
    def held_milli(self) -> int:
        return sum(share.milli for share in self.shares)

    @property
    def is_idle(self) -> bool:
        """True if jobs hold the GPU and nothing computed on it in the last sample."""
        return bool(self.shares) and self.utilization == 0

    @property
    def state(self) -> str:
        """The state in one or two words."""
        if not self.healthy:
            return self.health or "ill"
        if self.node_state not in {"", "Ready"}:
            return self.node_state
        if self.strangers:
            return "used by strangers"
        if not self.shares:
            return "free"
        return "idle" if self.is_idle else "busy" if self.utilization else "held"


def silent_s(node: Document, now: datetime) -> float | None:
    """Seconds since the agent of a GPUNode reported; None if it never did."""
    heard = heard_at(node)
    return None if heard is None else (now - heard).total_seconds()


def is_silent(node: Document, now: datetime) -> bool:
    """True if the agent of a GPUNode has missed so many heartbeats that the node gets no new jobs."""
    seen_s = silent_s(node, now)
    return seen_s is None or seen_s > silent_after_s(node)


def with_silent(nodes: Iterable[Document], now: datetime) -> Iterator[Document]:
    """The GPUNodes, those as `Silent` whose agent has not been heard: nobody knows what is free there."""
    for node in nodes:
        yield {**node, "status": {**(node.get("status") or {}), "node": SILENT}} if is_silent(node, now) else node


def counted_gpus(amount: float) -> str:
    """A number of GPUs as text: `1 GPU`, `0.5 GPUs`, `2 GPUs`."""
    return f"{amount:g} GPU" if amount == 1 else f"{amount:g} GPUs"


def gpu_views(nodes: Iterable[Document]) -> Iterator[GpuView]:
    """Every GPU of these GPUNodes, sorted by node and index."""
    for node in sorted(nodes, key=lambda one: str(one["metadata"]["name"])):
        status = node.get("status") or {}
        shares = _shares(status)
        simulated = bool(status.get("simulated"))
        is_blind = simulated or status.get("node") == SILENT
        strangers = [one.get("uuid") for one in status.get("strangers") or ()]
        for gpu in sorted(status.get("gpus") or (), key=lambda one: int(one.get("index", 0))):
            used = {} if is_blind else gpu.get("used") or {}
            yield GpuView(
                node=node["metadata"]["name"],
                index=gpu.get("index", 0),
                uuid=gpu["uuid"],
                gpu_class=gpu.get("class", ""),
                memory_mib=gpu.get("memoryMiB", 0),
                healthy=gpu.get("healthy", True),
                health=gpu.get("health", ""),
                node_state=status.get("node", ""),
                utilization=used.get("utilizationPercent"),
                used_mib=used.get("memoryMiB"),
                shares=tuple(sorted(shares.get(gpu["uuid"], ()), key=lambda one: one.job)),
                strangers=strangers.count(gpu["uuid"]),
                is_simulated=simulated,
            )


def _shares(status: Document) -> dict[str, list[GpuShare]]:
    """UUID → the shares that jobs hold. Several ranks of one job on one GPU are one share."""
    found: dict[tuple[str, str], GpuShare] = {}
    for holder in status.get("holders") or ():
        job = f"{holder['namespace']}/{holder['job']}"
        for gpu in holder.get("gpus") or ():
            before = found.get((gpu["uuid"], job), GpuShare(job, 0, 0))
            milli, memory = gpu.get("computeMilli", 0), gpu.get("memoryMiB", 0)
            found[gpu["uuid"], job] = GpuShare(job, before.milli + milli, before.memory_mib + memory)
    shares: dict[str, list[GpuShare]] = {}
    for (uuid, _), share in found.items():
        shares.setdefault(uuid, []).append(share)
    return shares
