"""When a node's agent was last heard, by its GPUNode. The one-file plugin reads it without any package."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cotenant import names


def heartbeat(node: Mapping[str, Any]) -> datetime | None:
    """Time of the last report, by the node's clock."""
    beat = (node.get("status") or {}).get("heartbeat")
    return datetime.fromisoformat(beat) if beat else None


def stored_at(node: Mapping[str, Any]) -> datetime | None:
    """Time of the last report, by the API server's clock; None if the object does not show it."""
    entries = (node.get("metadata") or {}).get("managedFields") or ()
    times = [entry["time"] for entry in entries if entry.get("subresource") == "status" and entry.get("time")]
    return max(map(datetime.fromisoformat, times), default=None)


def heard_at(node: Mapping[str, Any]) -> datetime | None:
    """Time at which the API server stored the last report, because the node's clock may be wrong; None if there is no
    report.
    """
    beat = heartbeat(node)
    return None if beat is None else stored_at(node) or beat


def silent_after_s(node: Mapping[str, Any]) -> int:
    """Seconds without a report after which the node gets no new jobs."""
    return names.HEARTBEATS_MISSED * int((node.get("status") or {}).get("heartbeatSeconds") or names.HEARTBEAT_S)
