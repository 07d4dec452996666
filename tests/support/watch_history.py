"""The watches of an API server: changes in the order of their versions, from any version that is not forgotten on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from cotenant.controller.client.kube import Resource, VersionGoneError, WatchEvent


class WatchHistory:
    def __init__(self) -> None:
        self._events: list[tuple[Resource, WatchEvent]] = []
        self._forgotten = 0
        self._changed = asyncio.Event()
        self._times_ended = 0

    def note(self, resource: Resource, event: WatchEvent) -> None:
        """One event for each version: the last of it counts."""
        if self._events and self._events[-1][1].version == event.version:
            self._events.pop()
        self._events.append((resource, event))
        self._wake()

    def end_watches(self, forgotten: int | None = None) -> None:
        """End those that are open; none can begin before the version `forgotten` any more."""
        self._times_ended += 1
        self._forgotten = self._forgotten if forgotten is None else forgotten
        self._wake()

    async def watch(self, resource: Resource, version: int, name: str) -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Changes after this version, of objects that are called so, until the watches are ended; as they are kept."""
        if version < self._forgotten:
            raise VersionGoneError(f"too old resource version: {version}")
        position, ended = 0, self._times_ended
        while ended == self._times_ended:
            found, position = self._events[position:], len(self._events)
            events = [one for kind, one in found if kind == resource and one.version > version]
            events = [one for one in events if name in ("", one.document["metadata"]["name"])]
            if events:
                yield events
            else:
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
