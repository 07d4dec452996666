"""Kubernetes Events about GPUNodes, for the administrator."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Generic, NamedTuple, TypeVar

from cotenant import names
from cotenant.controller.client.event_document import event_document
from cotenant.controller.client.kube import EVENTS, Document, FencedError, Kube, UnreachableError

log = logging.getLogger(__name__)

NOTE_CHARS_MAX: Final = 1024


def gpu_node_event(node: str, reason: str, text: str, now: datetime, *, warning: bool = True) -> Document:
    about = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "name": node}
    return event_document(about, reason, text[:NOTE_CHARS_MAX], now, instance="operator", warning=warning)


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
