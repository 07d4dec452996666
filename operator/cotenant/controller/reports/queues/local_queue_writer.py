"""Keeps a LocalQueue in every namespace that a queue serves: what its tenants may see of that queue.

LocalQueues are derived. No decision depends on them, and a missing or edited one is made anew. So they are listed from
time to time and not watched. Only visible changes are written, with a maximum for each round. If the API server refuses
a write, that namespace is left alone for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, Final, TypeAlias

from cotenant import names
from cotenant.api.resources.queue_status import LocalQueueStatus
from cotenant.controller.client.kube import (
    LOCAL_QUEUES,
    FailedWebhookError,
    Kube,
    Outcome,
    Reply,
    UnreachableError,
)
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.reports.queues.local_budget import with_budget
from cotenant.controller.reports.queues.local_queue_status import local_statuses
from cotenant.controller.telemetry.logs import shorten
from cotenant.core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)

WRITES_MAX: Final = 50
"""Most writes in one round. With a thousand namespaces, all are up to date after some rounds."""
LIST_S: Final = 300.0
REFUSED_S: Final = 60.0
Place: TypeAlias = tuple[str, str]
"""(namespace, queue): the object has the queue's name."""


@dataclass
class LocalQueueWriter:
    kube: Kube
    cache: ObjectCache
    _: KW_ONLY
    leadership: InitVar[Leadership]
    clock: Callable[[], float] = time.time
    """Unix seconds."""
    _snapshot: Snapshot | None = None
    _written: dict[Place, Mapping[str, Any]] = field(default_factory=dict)
    """Statuses as the API server has them, as far as is known."""
    _listed_at: float | None = None
    _refused_until: dict[str, float] = field(default_factory=dict)
    """Namespace → Unix seconds."""
    _next: Place = ("", "")
    """Where the next round starts."""

    def __post_init__(self, leadership: Leadership) -> None:
        leadership.on_lost(self.forget)

    def on_plan(self, snapshot: Snapshot) -> None:
        """Keep the snapshot of the last decision. The next round reads it."""
        self._snapshot = snapshot

    def forget(self) -> None:
        """Another replica writes from now on. Before the next write, LocalQueues are listed again."""
        self._snapshot = self._listed_at = None

    async def write(self) -> None:
        """One round. Raises UnreachableError."""
        if self._snapshot is None:
            return
        try:
            await self._write_all(self._snapshot)
        except UnreachableError:
            self._listed_at = None  # what became of a write without an answer is seen in the next list
            raise

    async def _write_all(self, snapshot: Snapshot) -> None:
        now = self.clock()
        if self._listed_at is None or now >= self._listed_at + LIST_S:
            await self._list()
            self._listed_at = now
        wanted = await asyncio.to_thread(local_statuses, snapshot, set(self._served(snapshot)))
        left = WRITES_MAX
        for place in self._in_turn(self._written.keys() - wanted.keys())[:left]:
            await self._contained(place, self._delete(place), now)
            left -= 1
        for place in self._in_turn(wanted):
            status = with_budget(wanted[place], self.cache.queues.get(place[1]))
            if place not in self._written or difference(self._written[place], status.to_document()):
                self._next = place
                if left <= 0:
                    return
                await self._contained(place, self._write(place, status, now), now)
                left -= 1

    async def _contained(self, place: Place, call: Awaitable[None], now: float) -> None:
        """A webhook that does not answer is of this namespace, perhaps. The others go on."""
        try:
            await call
        except FailedWebhookError as error:
            self._refused(place, Reply(Outcome.REFUSED, message=str(error), code=500), now)

    def _served(self, snapshot: Snapshot) -> Iterator[Place]:
        """Queues and namespaces served, of those that are there."""
        for queue in snapshot.queues:
            there = queue.namespaces & self.cache.namespaces.keys()
            yield from ((namespace, queue.name) for namespace in there)

    def _in_turn(self, wanted: Iterable[Place]) -> list[Place]:
        """All LocalQueues, starting where the last round ended."""
        now = self.clock()
        ordered = sorted(place for place in wanted if now >= self._refused_until.get(place[0], 0.0))
        later = [place for place in ordered if place >= self._next]
        return later + ordered[: len(ordered) - len(later)]

    async def _list(self) -> None:
        listing = await self.kube.list(LOCAL_QUEUES, labels=f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}")
        self._written = {
            (one["metadata"]["namespace"], one["metadata"]["name"]): one.get("status") or {} for one in listing.items
        }

    async def _write(self, place: Place, status: LocalQueueStatus, now: float) -> None:
        namespace, name = place
        if place not in self._written:
            reply = await self.kube.create(LOCAL_QUEUES, local_queue(place), namespace)
            if not reply.done and reply.outcome is not Outcome.EXISTS:
                self._refused(place, reply, now)
                return
            self._written[place] = {}
        change = difference(self._written[place], status.to_document())
        reply = await self.kube.patch(LOCAL_QUEUES, name, {"status": change}, namespace=namespace, subresource="status")
        if reply.done:
            self._written[place] = reply.document.get("status") or {}
        elif reply.outcome is Outcome.MISSING:
            del self._written[place]  # somebody deleted it: it is made again in the next round
        else:
            self._refused(place, reply, now)

    async def _delete(self, place: Place) -> None:
        """Delete a LocalQueue whose namespace the queue no longer serves. If the namespace is gone, so is the
        LocalQueue.
        """
        reply = await self.kube.delete(LOCAL_QUEUES, place[1], place[0])
        del self._written[place]
        if not reply.done and reply.outcome is not Outcome.MISSING:
            log.warning("localqueues/%s in %s stays: %s", place[1], place[0], shorten(reply.message))

    def _refused(self, place: Place, reply: Reply, now: float) -> None:
        self._refused_until[place[0]] = now + REFUSED_S
        if reply.outcome is not Outcome.MISSING:  # of a namespace that has just gone
            log.warning("localqueues/%s in %s (%d): %s", place[1], place[0], reply.code, shorten(reply.message))


def local_queue(place: Place) -> dict[str, Any]:
    """The object, without its status."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "LocalQueue",
        "metadata": {
            "name": place[1],
            "namespace": place[0],
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        },
    }
