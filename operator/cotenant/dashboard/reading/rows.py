"""Rows: the parts of each object that pages show.

The documents of the API server are read without a model, because ten thousand of them are read while a person waits.
Texts of tenants are plain text; templates escape them. A document that cannot be read becomes a row that says so. Times
are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from cotenant.api.scalars.agent_reports import heard_at, silent_after_s
from cotenant.api.scalars.quantities import QuantityError, parse_duration
from cotenant.controller.client.kube import Document

TEXT_MAX: Final = 600
"""At most this many characters of a sentence in a list. The page of a job shows it whole."""
UNREADABLE: Final = (AttributeError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The row of an object in a namespace."""

    namespace: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldShare:
    """The part of one GPU that a rank has."""

    node: str
    rank: int
    uuid: str
    memory_mib: int
    milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow(Row):
    uid: str = ""
    queue: str = ""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    workers: str = ""
    gpus: str = ""
    priority: int = 0
    created: float = 0.0
    started: float | None = None
    admitted: float | None = None
    finished: float | None = None
    position: int | None = None
    start_at: float | None = None
    start_by: float | None = None
    ahead: str = ""
    would_start_if: str = ""
    progress: str = ""
    percent: int | None = None
    remaining_s: int | None = None
    saved_at: float | None = None
    """When its newest checkpoint was complete."""
    expected_s: int | None = None
    shares: tuple[HeldShare, ...] = ()
    gpu_ms: int = 0
    """GPUs × milliseconds held, as its status says."""
    restarts: int = 0
    faults: int = 0
    failures: int = 0
    eviction: str = ""
    evicted_at: float | None = None
    exit_reason: str = ""

    @property
    def milli(self) -> int:
        """Thousandths of a GPU that it holds."""
        return sum(share.milli for share in self.shares)


def job_row(document: Document) -> JobRow:
    metadata = document["metadata"]
    try:
        return _job_row(metadata, document.get("spec") or {}, document.get("status") or {})
    except UNREADABLE:
        return JobRow(namespace=metadata["namespace"], name=metadata["name"], reason="Unreadable")


def _job_row(metadata: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> JobRow:
    pending, progress = status.get("pending") or {}, status.get("progress") or {}
    placement, usage = status.get("placement") or {}, status.get("usage") or {}
    eviction, last = status.get("eviction") or {}, status.get("lastExit") or {}
    return JobRow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=str(metadata.get("uid", "")),
        queue=str(spec.get("queue", "")),
        phase=str(status.get("phase") or "Pending"),
        reason=str(pending.get("reason") or status.get("reason") or ""),
        message=short(pending.get("message") or status.get("message")),
        workers=str(status.get("workers") or spec.get("workers") or 1),
        gpus=str(status.get("gpus") or ""),
        priority=int(spec.get("priority") or 0),
        created=instant(metadata.get("creationTimestamp")) or 0.0,
        started=instant(status.get("startedAt")),
        admitted=instant(placement.get("admittedAt")),
        finished=instant(status.get("finishedAt")),
        position=pending.get("position"),
        start_at=instant(pending.get("estimatedStart")),
        start_by=instant(pending.get("latestStart")),
        ahead=short(pending.get("ahead")),
        would_start_if=short(pending.get("wouldStartIf")),
        progress=str(progress.get("summary") or ""),
        percent=progress.get("percent"),
        remaining_s=progress.get("remainingSeconds"),
        saved_at=instant((progress.get("lastCheckpoint") or {}).get("at")),
        expected_s=seconds(spec.get("expectedRuntime")),
        shares=tuple(_shares(placement)),
        gpu_ms=int(usage.get("gpuMilliseconds") or 1000 * int(usage.get("gpuSeconds") or 0)),
        restarts=int(status.get("restarts") or 0),
        faults=int(status.get("faults") or 0),
        failures=int(status.get("failures") or 0),
        eviction=str(eviction.get("kind") or ""),
        evicted_at=instant(eviction.get("at")),
        exit_reason=str(last.get("reason") or ""),
    )


def _shares(placement: Mapping[str, Any]) -> list[HeldShare]:
    return [
        HeldShare(node=str(part["node"]), rank=int(rank["rank"]), uuid=str(gpu["uuid"]),
                  memory_mib=int(gpu["memoryMiB"]), milli=int(gpu["computeMilli"]))
        for part in placement.get("nodes") or ()
        for rank in part["ranks"]
        for gpu in rank["gpus"]
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WallGpu:
    uuid: str
    index: int
    gpu_class: str
    memory_mib: int
    healthy: bool
    health: str
    is_drained: bool
    parent: str
    """Parent GPU of a MIG instance."""
    utilization: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHold:
    """The part of one GPU that one pod holds, as the node's agent reports it."""

    uuid: str
    namespace: str
    job: str
    memory_mib: int
    milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNodeRow:
    name: str
    state: str = ""
    """`Ready`, `Cordoned`, `Tainted` or `NotReady`; `Silent` in a row of `at`."""
    heard_at: float | None = None
    silent_after_s: int = 0
    is_simulated: bool = False
    isolation: str = ""
    gpus: tuple[WallGpu, ...] = ()
    holds: tuple[GpuHold, ...] = ()
    strangers: frozenset[str] = frozenset()
    """UUIDs of GPUs with a process that has no grant."""

    def at(self, now: float) -> GpuNodeRow:
        """The row at this time. `Silent`: its agent has missed so many heartbeats that no job starts there."""
        heard = self.heard_at is not None and now - self.heard_at <= self.silent_after_s
        return self if heard or self.state == "Unreadable" else replace(self, state="Silent")


def gpu_node_row(document: Document) -> GpuNodeRow:
    name = str(document["metadata"]["name"])
    try:
        return _gpu_node_row(name, document)
    except UNREADABLE:
        return GpuNodeRow(name=name, state="Unreadable")


def _gpu_node_row(name: str, document: Document) -> GpuNodeRow:
    status, heard = document.get("status") or {}, heard_at(document)
    levels = status.get("isolationLevels") or {"memory": status.get("isolation") or "None", "compute": "None"}
    return GpuNodeRow(
        name=name,
        state=str(status.get("node") or ""),
        heard_at=heard.timestamp() if heard is not None else None,
        silent_after_s=silent_after_s(document),
        is_simulated=bool(status.get("simulated")),
        isolation=f"memory {levels.get('memory', 'None')}, compute {levels.get('compute', 'None')}",
        gpus=tuple(_wall_gpu(one, is_simulated=bool(status.get("simulated"))) for one in status.get("gpus") or ()),
        holds=tuple(
            GpuHold(uuid=str(gpu["uuid"]), namespace=str(one["namespace"]), job=str(one["job"]),
                    memory_mib=int(gpu["memoryMiB"]), milli=int(gpu.get("computeMilli") or 0))
            for one in status.get("holders") or ()
            for gpu in one.get("gpus") or ()
        ),
        strangers=frozenset(str(one["uuid"]) for one in status.get("strangers") or ()),
    )  # fmt: skip


def _wall_gpu(gpu: Mapping[str, Any], *, is_simulated: bool) -> WallGpu:
    used = {} if is_simulated else gpu.get("used") or {}
    return WallGpu(
        uuid=str(gpu["uuid"]),
        index=int(gpu["index"]),
        gpu_class=str(gpu["class"]),
        memory_mib=int(gpu["memoryMiB"]),
        healthy=bool(gpu.get("healthy", True)),
        health=str(gpu.get("health") or ""),
        is_drained=bool(gpu.get("drain")),
        parent=str(gpu.get("parent") or ""),
        utilization=used.get("utilizationPercent"),
    )


def instant(timestamp: object) -> float | None:
    """A time: RFC 3339 → Unix seconds."""
    return datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) and timestamp else None


def seconds(duration: object) -> int | None:
    try:
        return parse_duration(duration) if isinstance(duration, str) else None
    except QuantityError:
        return None


def short(text: object) -> str:
    found = str(text or "")
    return found if len(found) <= TEXT_MAX else found[: TEXT_MAX - 1] + "…"
