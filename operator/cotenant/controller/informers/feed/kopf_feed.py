"""kopf watches Cotenant's own kinds and the built-in kinds that seldom change. Its handlers only pass events on.

Pods and NetworkPolicies have a `reflector` instead. kopf runs in a thread with a loop of its own, because it cancels
everything in its loop when it stops. It gets `on.event` handlers only: no finalizers, no annotations, no peering, no
posted Events. Every watch has a timeout, so that a silent stream is opened anew.

kopf watches only kinds that the API server serves when kopf starts, and it ends when one of them is removed. So start
it with the kinds that exist, and start it again when it has ended. If a watch cannot continue, kopf lists the kind anew
and does not name deleted objects; `EventSink.on_listed` tells when to look for those.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol, cast

import kopf

from cotenant.controller.client import loop_thread
from cotenant.controller.client.kube import (
    BOOKINGS,
    CLUSTER_PROFILES,
    GPU_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PRIORITY_CLASSES,
    PROFILES,
    QUEUES,
    QUOTA_REQUESTS,
    REMOTE_CLUSTERS,
    RESOURCE_CLAIMS,
    SESSIONS,
    SWEEPS,
    TRAINING_JOBS,
    Document,
    Resource,
)

log = logging.getLogger(__name__)

OWN_KINDS: Final = (
    GPU_NODES,
    QUEUES,
    PROFILES,
    CLUSTER_PROFILES,
    TRAINING_JOBS,
    SESSIONS,
    SWEEPS,
    QUOTA_REQUESTS,
    BOOKINGS,
    REMOTE_CLUSTERS,
)
"""All kinds except LocalQueues, which the operator only writes. Profiles come before the jobs that use them."""
BUILT_IN: Final = (NAMESPACES, PRIORITY_CLASSES, NODES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS)
WATCHED: Final = (*BUILT_IN, *OWN_KINDS)


def watched(device_claims: str) -> tuple[Resource, ...]:
    """Resources that an operator with this setting watches."""
    return (*WATCHED, RESOURCE_CLAIMS) if device_claims == "counted" else WATCHED


PAGE: Final = 500
"""Objects on one page of a list."""
GATHER_S = 0.01
"""How long events are gathered before they are passed on; short compared with the loop's batching window."""


class EventSink(Protocol):
    """Is told what kopf observes, in the operator's loop."""

    def on_event(self, resource: Resource, document: Document, deleted: bool) -> None: ...

    def on_listed(self, resource: Resource) -> None:
        """kopf has listed this kind again. What is missing from its list was deleted, and no event says so."""


class FeedStoppedError(RuntimeError):
    """kopf has stopped by itself. Nothing is observed until it runs again."""


class EventBridge:
    """Passes events from kopf's thread to the operator's loop, in order.

    Events close together share one wake-up, because each costs a system call and a thread switch.
    """

    def __init__(self, sink: EventSink, loop: asyncio.AbstractEventLoop) -> None:
        self._sink = sink
        self._loop = loop
        self._waiting: deque[tuple[Resource, Document, str | None]] = deque()
        self._called = False

    def put(self, resource: Resource, document: Document, kind: str | None) -> None:
        """`kind` is `ADDED`, `MODIFIED` or `DELETED`; None for an object of a list."""
        self._waiting.append((resource, document, kind))
        self._call()

    def _call(self) -> None:
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._loop.call_later, GATHER_S, self._take_all)

    def _take_all(self) -> None:
        self._called = False  # before the last look: what is put after it calls again
        listed: dict[Resource, None] = {}
        while self._waiting:
            resource, document, kind = self._waiting.popleft()
            if kind is None:
                listed[resource] = None
            try:
                self._sink.on_event(resource, document, kind == "DELETED")
            except Exception:  # it does not hold up those behind it
                log.exception("an event of %s could not be taken in", resource.plural)
        for resource in listed:
            self._sink.on_listed(resource)


def build_registry(bridge: EventBridge, resources: Iterable[Resource] = WATCHED) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(kopf.login_via_client)
    for resource in resources:
        _watch(registry, resource, bridge)
    return registry


def _watch(registry: kopf.OperatorRegistry, resource: Resource, bridge: EventBridge) -> None:
    @kopf.on.event(
        resource.group, resource.version, resource.plural, id=f"observe-{resource.plural}", registry=registry
    )
    async def observe(event: Any, **_: Any) -> None:
        bridge.put(resource, dict(event["object"]), event["type"])


class NoDiffBase(kopf.DiffBaseStorage):
    """Keeps kopf from comparing objects. By default it copies and compares each object at every event."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        return cast(kopf.BodyEssence, None)  # as `fetch`: an empty essence would be copied three times

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Never called: without change handlers there is nothing to store."""


class Backoff:
    """Seconds between tries to open a watch, without end, so that events come within seconds after an outage of any
    length.

    kopf's own pauses grow to 21 s; then its watch ends and starts again.
    """

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.5, 1.0), itertools.repeat(2.0))


def build_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.networking.error_backoffs = Backoff()
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.finalizer = ""  # a name that no object can have: kopf takes its own off whoever wrote it there
    settings.posting.enabled = False
    settings.scanning.disabled = True  # resources are known, no CRD is waited for, all namespaces are watched
    settings.peering.standalone = True
    settings.watching.server_timeout = 240
    settings.watching.client_timeout = 270
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = 90
    settings.watching.chunk_size = PAGE
    settings.networking.request_timeout = 60
    settings.process.ultimate_exiting_timeout = None
    return settings


async def run(sink: EventSink, resources: Iterable[Resource] = WATCHED) -> None:
    """Feed until cancelled. Raises FeedStoppedError when kopf ends by itself."""
    stop = threading.Event()
    registry = build_registry(EventBridge(sink, asyncio.get_running_loop()), resources)

    async def operate() -> None:
        try:
            await kopf.operator(registry=registry, settings=build_settings(), clusterwide=True, stop_flag=stop)
        finally:
            stop.set()  # kopf has a thread that waits for it, and its loop does not close before

    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # it warns of having no signals, as wanted
    ended = loop_thread.start("kopf", operate)
    try:
        raise FeedStoppedError("the feed of Kubernetes events has ended") from await asyncio.shield(ended)
    finally:
        stop.set()
