"""What a process observes: streams of events that may come late, or break.

As kopf serves them, a list of each kind comes first. Events of one object come in order, of several that lie close
together only the last; those of different objects in any order. A stream that breaks for too long (410 Gone) begins
anew with a list, and what went meanwhile is never named. A watch of the API server brings every change in order.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from cotenant.controller.client.kube import Resource, VersionGoneError, WatchEvent, version_of
from cotenant.controller.informers.feed.kopf_feed import WATCHED, EventBridge, EventSink
from tests.support.simulation.api_server import ApiServer, Change


@dataclass(slots=True)
class Feed:
    server: ApiServer
    dice: Random
    quiet_until: dict[str, float] = field(default_factory=dict)
    """Plural → time until which its stream is broken."""
    gone: set[str] = field(default_factory=set)
    """Plurals of which the stream is too old to go on."""

    async def run(self, sink: EventSink, resources: Iterable[Resource] = WATCHED) -> None:
        bridge = EventBridge(sink, asyncio.get_running_loop())
        async with asyncio.TaskGroup() as streams:
            for resource in resources:
                streams.create_task(self._watch(resource, bridge))

    async def _watch(self, resource: Resource, bridge: EventBridge) -> None:
        while True:
            listed = list(self.server.objects[resource].values())
            position = len(self.server.changes[resource])
            await asyncio.sleep(self._lag_s())
            for document in listed:
                bridge.put(resource, document, None)
            await self._stream(resource, position, bridge)

    async def _stream(self, resource: Resource, position: int, bridge: EventBridge) -> None:
        """Stream changes until the version is too old to go on."""
        changes = self.server.changes[resource]
        while await self._may_go_on(resource, position):
            some, position = changes[position:], len(changes)
            for change in self._as_they_come(some):
                bridge.put(resource, change.document, "DELETED" if change.deleted else "MODIFIED")

    async def watch(
        self, resource: Resource, version: int, name: str = ""
    ) -> AsyncGenerator[Sequence[WatchEvent], None]:
        """A watch as the API server serves it."""
        changes = self.server.changes[resource]
        position = bisect_right(changes, version, key=lambda change: version_of(change.document))
        while await self._may_go_on(resource, position):
            some, position = changes[position:], len(changes)
            yield [
                WatchEvent("DELETED" if one.deleted else "MODIFIED", one.document, version_of(one.document))
                for one in some
                if name in ("", one.document["metadata"]["name"])
            ]
        raise VersionGoneError(f"{resource.plural}: too old")

    async def _may_go_on(self, resource: Resource, position: int) -> bool:
        """Once there are changes after this position: whether it is not too old by then."""
        await self.server.wait_for_change(resource, position)
        await asyncio.sleep(self._lag_s())
        quiet_s = self.quiet_until.pop(resource.plural, 0.0) - asyncio.get_running_loop().time()
        if quiet_s > 0.0:
            await asyncio.sleep(quiet_s)
        gone = resource.plural in self.gone
        self.gone.discard(resource.plural)
        return not gone

    def _as_they_come(self, changes: list[Change]) -> list[Change]:
        of_object: dict[str, list[Change]] = {}
        for change in changes:
            of_object.setdefault(change.uid, []).append(change)
        queues = [found[-1:] if self.dice.random() < 0.5 else found for found in of_object.values()]
        order = [index for index, queue in enumerate(queues) for _ in queue]
        self.dice.shuffle(order)
        return [queues[index].pop(0) for index in order]

    def _lag_s(self) -> float:
        return self.dice.expovariate(20.0 if self.dice.random() < 0.95 else 0.5)
