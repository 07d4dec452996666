"""The demo at one moment, as values: GPUs with the shares that jobs hold, and jobs with their phases.

Pure: built from the documents that the API server returns; `view` draws it, `story` decides when it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Document = Mapping[str, Any]
TERMINAL = frozenset({"Succeeded", "Failed", "Invalid"})


@dataclass(frozen=True, slots=True)
class HeldShare:
    """One rank's part of one GPU."""

    job: str
    rank: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class GpuRow:
    node: str
    index: int
    uuid: str
    gpu_class: str
    memory_mib: int
    simulated: bool
    held: tuple[HeldShare, ...]

    @property
    def free_mib(self) -> int:
        return self.memory_mib - sum(part.memory_mib for part in self.held)


@dataclass(frozen=True, slots=True)
class JobRow:
    name: str
    """`namespace/name`."""
    queue: str
    workers: str
    share: str
    phase: str
    reason: str
    message: str
    percent: int | None
    results: Mapping[str, Any]
    created: float
    started: float | None
    finished: float | None

    @property
    def over(self) -> bool:
        return self.phase in TERMINAL


@dataclass(frozen=True, slots=True)
class Scene:
    gpus: tuple[GpuRow, ...]
    jobs: tuple[JobRow, ...]

    @property
    def over(self) -> bool:
        return bool(self.jobs) and all(job.over for job in self.jobs)

    @property
    def overcommitted(self) -> tuple[GpuRow, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.free_mib < 0)


def scene_of(gpu_nodes: Iterable[Document], training_jobs: Iterable[Document]) -> Scene:
    """Everything that is on show, in a stable order: GPUs by node and index, jobs by age."""
    jobs = sorted(training_jobs, key=lambda job: (job["metadata"]["creationTimestamp"], name_of(job)))
    held = held_by_gpu(jobs)
    gpus = tuple(
        GpuRow(
            node=node["metadata"]["name"],
            index=int(gpu["index"]),
            uuid=gpu["uuid"],
            gpu_class=gpu["class"],
            memory_mib=int(gpu["memoryMiB"]),
            simulated=bool(node.get("status", {}).get("simulated")),
            held=tuple(held.get(gpu["uuid"], ())),
        )
        for node in sorted(gpu_nodes, key=lambda node: str(node["metadata"]["name"]))
        for gpu in sorted(node.get("status", {}).get("gpus", ()), key=lambda gpu: int(gpu["index"]))
    )
    return Scene(gpus=gpus, jobs=tuple(job_row(job) for job in jobs))


def held_by_gpu(jobs: Iterable[Document]) -> dict[str, list[HeldShare]]:
    held: dict[str, list[HeldShare]] = {}
    for job in jobs:
        status = job.get("status", {})
        if status.get("phase") in TERMINAL:
            continue
        for node in (status.get("placement") or {}).get("nodes", ()):
            for rank in node["ranks"]:
                for gpu in rank["gpus"]:
                    part = HeldShare(name_of(job), int(rank["rank"]), int(gpu["memoryMiB"]))
                    held.setdefault(gpu["uuid"], []).append(part)
    return held


def job_row(job: Document) -> JobRow:
    spec, status = job["spec"], job.get("status", {})
    pending, progress = status.get("pending") or {}, status.get("progress") or {}
    percent = None
    if progress.get("of"):
        percent = min(100, 100 * int(progress["step"]) // int(progress["of"]))
    return JobRow(
        name=name_of(job),
        queue=spec["queue"],
        workers=workers_text(spec.get("workers", 1)),
        share=share_text(spec.get("gpu", {})),
        phase=status.get("phase", "Pending"),
        reason=pending.get("reason", ""),
        message=pending.get("message") or status.get("message") or "",
        percent=percent,
        results=status.get("results") or {},
        created=seconds(job["metadata"]["creationTimestamp"]) or 0.0,
        started=seconds(status.get("startedAt")),
        finished=seconds(status.get("finishedAt")),
    )


def name_of(job: Document) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def workers_text(workers: Any) -> str:
    return f"{workers['min']}–{workers['max']}" if isinstance(workers, Mapping) else str(workers)


def share_text(gpu: Document) -> str:
    if "memoryFraction" in gpu:
        return f"{gpu['memoryFraction']} GPU"
    if "memory" in gpu:
        return f"{gpu['memory']} of a GPU"
    return f"{gpu.get('count', 1)} GPU"


def seconds(timestamp: str | None) -> float | None:
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp() if timestamp else None
