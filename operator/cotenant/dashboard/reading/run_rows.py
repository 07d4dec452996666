"""Rows of recorded runs (`runs`): what lists and the timeline show of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cotenant.controller.client.kube import Document
from cotenant.core.model.lifecycle import Phase
from cotenant.dashboard.reading.rows import JobRow, Row, instant
from cotenant.sdk.objects.answer_texts import asked

DELETED: Final = "Deleted"
"""Outcome of a run whose job was deleted before the run ended."""
OVER: Final = (str(Phase.SUCCEEDED), str(Phase.FAILED), DELETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(Row):
    uid: str = ""
    queue: str = ""
    user: str = ""
    outcome: str = ""
    reason: str = ""
    message: str = ""
    asked: str = ""
    """The request: `2 × 0.4 H100`."""
    created: float | None = None
    started: float | None = None
    finished: float | None = None
    gpu_s: int = 0
    attempts: int = 0
    busy: int | None = None
    """Percent of the time in which a kernel ran, if it was measured."""
    memory: int | None = None
    """Largest part of its memory that the run used, in percent."""
    micros: int | None = None
    """Cost in millionths of the currency; None if there is no price."""
    currency: str = ""
    is_priced_in_part: bool = False


def run_row(document: Document) -> RunRow:
    metadata, status = document["metadata"], document.get("status") or {}
    use, cost = status.get("use") or {}, status.get("cost") or {}
    return RunRow(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        uid=str(metadata.get("uid", "")),
        queue=str(status.get("queue", "")),
        user=str(status.get("user", "")),
        outcome=str(status.get("outcome", "")),
        reason=str(status.get("reason", "")),
        message=str(status.get("message", "")),
        asked=asked(status),
        created=instant(status.get("createdAt")),
        started=instant(status.get("startedAt")),
        finished=instant(status.get("finishedAt")),
        gpu_s=int(status.get("gpuSeconds") or 0),
        attempts=int(status.get("attempts") or 0),
        busy=use.get("busyPercent"),
        memory=use.get("memoryPercent"),
        micros=cost.get("micros"),
        currency=str(cost.get("currency", "")),
        is_priced_in_part=bool(cost.get("unpricedGPUSeconds")),
    )


def as_job(run: RunRow) -> JobRow:
    """The row of a job that is gone, as far as its run tells."""
    return JobRow(
        namespace=run.namespace,
        name=run.name,
        uid=run.uid,
        queue=run.queue,
        phase=run.outcome,
        reason=run.reason,
        gpus=run.asked,
        created=run.created or 0.0,
        started=run.started,
        finished=run.finished,
    )
