"""Rows of QuotaRequests: who asks for what, until when, for what purpose, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.controller.client.kube import Document
from cotenant.dashboard.reading.rows import UNREADABLE, Row, instant, short


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow(Row):
    uid: str = ""
    version: str = ""
    """Version of the object that was shown. The answer applies to this version."""
    phase: str = "Pending"
    queue: str = ""
    asked: str = ""
    """The request in short: `4 GPUs of class H100`."""
    reason: str = ""
    """The purpose, in the tenant's words."""
    message: str = ""
    obstacles: tuple[str, ...] = ()
    """Why a part of the request would add nothing or find no GPUs."""
    answered_by: str = ""
    created: float = 0.0
    until: float | None = None


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
