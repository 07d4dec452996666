"""Kubernetes Events about GPUNodes, for the administrator."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Generic, NamedTuple, TypeVar

from cotenant import names
from cotenant.controller.client.kube import EVENTS, Document, FencedError, Kube, UnreachableError

log = logging.getLogger(__name__)

NOTE_CHARS_MAX: Final = 1024
COMPONENT: Final = f"{names.GROUP}/operator"


def gpu_node_event(node: str, reason: str, text: str, now: datetime, *, warning: bool = True) -> Document:
    """An Event about a GPUNode. Events of cluster-scoped objects live in `default`."""
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


KeyT = TypeVar("KeyT", bound=tuple[str, ...])


class News(NamedTuple):
    node: str
    reason: str
    text: str
    warning: bool = True


class NewsOnce(Generic[KeyT]):
    """Writes an Event for each item that is new since the last time."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._named: set[KeyT] = set()

    async def write(self, there: Mapping[KeyT, News]) -> None:
        """Take in all current items. An item whose Event cannot be written counts as new next time."""
        for key in sorted(there.keys() - self._named):
            node, reason, text, warning = there[key]
            event = gpu_node_event(node, reason, text, datetime.now(UTC), warning=warning)
            try:
                await self._kube.create(EVENTS, event, "default")
            except FencedError:
                return  # the replica that leads names them
            except UnreachableError as error:
                log.warning("GPUNode %s: an event was not written: %s", node, error)
                return
            self._named.add(key)
        self._named &= there.keys()
