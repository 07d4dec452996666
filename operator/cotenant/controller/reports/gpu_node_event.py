"""A Kubernetes Event about a GPUNode, for the administrator."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Final

from cotenant import names
from cotenant.controller.client.kube import Document

NOTE_CHARS_MAX: Final = 1024
COMPONENT: Final = f"{names.GROUP}/operator"


def gpu_node_event(node: str, reason: str, text: str, now: datetime, *, warning: bool = True) -> Document:
    """Events of what has no namespace live in `default`."""
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{node}.{uuid.uuid4().hex[:16]}", "namespace": "default"},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "operator",
        "action": reason,
        "reason": reason,
        "involvedObject": {"apiVersion": names.API_VERSION, "kind": "GPUNode", "name": node},
        "message": text[:NOTE_CHARS_MAX],
        "type": "Warning" if warning else "Normal",
    }
