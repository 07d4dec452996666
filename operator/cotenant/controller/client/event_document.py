"""The document of a Kubernetes Event that the operator reports."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Final

from cotenant import names
from cotenant.api.scalars.fields import show_time
from cotenant.controller.client.kube import Document

REPORTER: Final = f"{names.GROUP}/operator"


def event_document(
    about: Document, reason: str, message: str, now: datetime, *, instance: str, warning: bool, unique: str = ""
) -> Document:
    """An Event of the core API group, with the times that `kubectl get events --sort-by=.lastTimestamp` reads.

    Events about cluster-scoped objects live in the namespace `default`. `unique` ends its name; the default is random.
    """
    moment = show_time(now)
    name = f"{about['name']}.{unique or uuid.uuid4().hex[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about.get("namespace") or "default"},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "source": {"component": REPORTER},
        "reportingComponent": REPORTER,
        "reportingInstance": instance,
        "action": reason,
        "reason": reason,
        "involvedObject": about,
        "message": message,
        "type": "Warning" if warning else "Normal",
    }
