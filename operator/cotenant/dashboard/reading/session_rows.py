"""Rows of Sessions: what each runs, whether it can be opened, when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.controller.client.kube import Document
from cotenant.dashboard.reading.rows import UNREADABLE, Row, instant, short


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow(Row):
    application: str = ""
    queue: str = ""
    phase: str = "Pending"
    message: str = ""
    job: str = ""
    """The session's TrainingJob."""
    serves: bool = False
    """True if it has web pages. All kinds except a shell do."""
    created: float = 0.0
    started: float | None = None
    active: float | None = None
    """When it was last used."""
    suspends: float | None = None
    ends: float | None = None

    @property
    def runs(self) -> bool:
        return self.phase == "Running"


def session_row(document: Document) -> SessionRow:
    metadata = document["metadata"]
    try:
        return _session_row(metadata, document.get("spec") or {}, document.get("status") or {})
    except UNREADABLE:
        return SessionRow(namespace=metadata["namespace"], name=metadata["name"], phase="Unreadable")


def _session_row(metadata: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> SessionRow:
    return SessionRow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        application=str(spec.get("application", "")),
        queue=str(spec.get("queue", "")),
        phase=str(status.get("phase") or "Pending"),
        message=short(status.get("message")),
        job=str(status.get("job") or ""),
        serves=spec.get("application") != "Shell",
        created=instant(metadata.get("creationTimestamp")) or 0.0,
        started=instant(status.get("startedAt")),
        active=instant(status.get("lastActivity")),
        suspends=instant(status.get("suspendsAt")),
        ends=instant(status.get("endsAt")),
    )
