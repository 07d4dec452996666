"""kopf's part: it keeps the watches open of all that changes seldom, and hands every event on. No decision and no patch
is made here. What every step of a job changes has a `reflector`: there an event costs a fifth.

kopf runs in a thread with a loop of its own, because it cancels whatever it finds in its loop when it stops. It gets
`on.event` handlers only: no finalizers, no annotations, no peering, no posted events, and every watch has a timeout, so
that a stream which went quiet is opened anew. kopf watches only kinds that the API server has when it starts, and ends
when one of them goes: start it when all have been listed, and anew when it has ended.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import kopf

from cotenant.controller.client.kube import (
    GPU_NODES,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_CLAIMS,
    Document,
    Resource,
)

log = logging.getLogger(__name__)

WATCHED: Final = (NAMESPACES, PRIORITY_CLASSES, NODES, GPU_NODES, QUEUES)


def watched(device_claims: str) -> tuple[Resource, ...]:
    """Resources that an operator with this setting watches."""
    return (*WATCHED, RESOURCE_CLAIMS) if device_claims == "counted" else WATCHED


GATHER_S = 0.01
"""Time for which events are gathered before they are handed over: little beside the batching of the scheduling loop."""

OnEvent = Callable[[Resource, Document, bool], None]
"""(resource, object, deleted) → the object cache. Called in the operator's loop."""


class FeedStoppedError(RuntimeError):
    """kopf ended by itself: nothing is observed until it runs again."""


class EventBridge:
    """Bridge from kopf's thread to the operator's loop, in order. Close events share one wake-up: each is a
    system call and a change of threads.
    """

    def __init__(self, take: OnEvent, loop: asyncio.AbstractEventLoop) -> None:
        self._take = take
        self._loop = loop
        self._waiting: deque[tuple[Resource, Document, bool]] = deque()
        self._called = False

    def put(self, resource: Resource, document: Document, deleted: bool) -> None:
        self._waiting.append((resource, document, deleted))
        self._call()

    def _call(self) -> None:
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._loop.call_later, GATHER_S, self._take_all)

    def _take_all(self) -> None:
        self._called = False  # before the last look: what is put after it calls again
        while self._waiting:
            resource, document, deleted = self._waiting.popleft()
            try:
                self._take(resource, document, deleted)
            except Exception:  # it does not hold up those behind it
                log.exception("an event of %s could not be taken in", resource.plural)


def build_registry(delivery: EventBridge, resources: Iterable[Resource] = WATCHED) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(kopf.login_via_client)
    for resource in resources:
        _watch(registry, resource, delivery)
    return registry


def _watch(registry: kopf.OperatorRegistry, resource: Resource, delivery: EventBridge) -> None:
    @kopf.on.event(
        resource.group, resource.version, resource.plural, id=f"observe-{resource.plural}", registry=registry
    )
    async def observe(event: Any, **_: Any) -> None:
        delivery.put(resource, dict(event["object"]), event["type"] == "DELETED")


class NoDiffBase(kopf.DiffBaseStorage):
    """Keeps kopf from comparing objects: left alone it copies and compares all of each one, at every event."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Never called: without handlers of changes there is nothing to remember."""


class Backoff:
    """Seconds between the tries to open a watch, endless: after an outage of any length, events come within seconds.

    kopf's own grow to 21 s, and then its watch ends and begins anew.
    """

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.5, 1.0), itertools.repeat(2.0))


def build_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.networking.error_backoffs = Backoff()
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # resources are known, no CRD is waited for, all namespaces are watched
    settings.peering.standalone = True
    settings.watching.server_timeout = 240
    settings.watching.client_timeout = 270
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = 90
    settings.networking.request_timeout = 60
    settings.process.ultimate_exiting_timeout = None
    return settings


async def run(on_event: OnEvent, resources: Iterable[Resource] = WATCHED) -> None:
    """Feed until cancelled. Raises FeedStoppedError when kopf ends by itself."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[BaseException | None] = loop.create_future()
    stop = threading.Event()
    registry, settings = build_registry(EventBridge(on_event, loop), resources), build_settings()

    def set_ended(error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result(error)

    async def operate() -> None:
        try:
            await kopf.operator(registry=registry, settings=settings, clusterwide=True, stop_flag=stop)
        finally:
            stop.set()  # kopf has a thread that waits for it, and its loop does not close before

    def body() -> None:
        error: BaseException | None = None
        try:
            asyncio.run(operate())
        except BaseException as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(set_ended, error)

    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # it warns of having no signals, as wanted
    threading.Thread(target=body, name="kopf", daemon=True).start()
    try:
        raise FeedStoppedError("the feed of Kubernetes events has ended") from await asyncio.shield(ended)
    finally:
        stop.set()
