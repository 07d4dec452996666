"""Rows of QuotaRequests: who asks for what, until when, what for, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.controller.client.kube import Document
from cotenant.dashboard.reading.rows import UNREADABLE, instant, short


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    """Of the object, as it was shown: an answer is to this one."""
    phase: str = "Pending"
    queue: str = ""
    asked: str = ""
    """In short: `4 GPUs of class H100`."""
    reason: str = ""
    """What it is for, in the words of the tenant."""
    message: str = ""
    obstacles: tuple[str, ...] = ()
    """Why part of it would add nothing, or would find no room."""
    answered_by: str = ""
    created: float = 0.0
    until: float | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def request_row(document: Document) -> RequestRow:
    metadata = document["metadata"]
    try:
        return _request_row(metadata, document.get("spec") or {}, document.get("status") or {})
    except UNREADABLE:
        return RequestRow(namespace=metadata["namespace"], name=metadata["name"], phase="Unreadable")


def _request_row(metadata: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> RequestRow:
    granted = status.get("granted") or {}
    return RequestRow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        phase=str(status.get("phase") or "Pending"),
        queue=str(status.get("queue") or spec.get("queue") or ""),
        asked=short(status.get("asked")),
        reason=short(spec.get("reason")),
        message=short(status.get("message")),
        obstacles=tuple(
            short(one.get("message"))
            for one in status.get("conditions") or ()
            if one.get("type") in ("Applicable", "WithinParents") and one.get("status") == "False"
        ),
        answered_by=str((status.get("approval") or {}).get("by") or ""),
        created=instant(metadata.get("creationTimestamp")) or 0.0,
        until=instant(granted.get("until")) or instant(spec.get("until")),
    )
