"""API server in memory, the one double of `Kube`: the rules that the operator relies on, and faults on demand.

resourceVersions grow with every change and guard patches; a name is taken until its object is gone; a subresource alone
writes the status; a pod that runs is removed by its kubelet, all else at once, and a second deletion can only shorten
its grace period. Watches bring each change in order; `deliver` hands
them on when a test wants it. `tests/controller/client/test_kube.py` holds the real API server to the same promises.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from cotenant.controller.client import kube
from cotenant.controller.client.kube import (
    Document,
    Listing,
    Outcome,
    Reply,
    Resource,
    UnreachableError,
    WatchEvent,
)
from tests.support.api_faults import Fault, Faults
from tests.support.watch_history import WatchHistory

CREATED_AT: Final = "2026-01-01T00:00:00Z"
WITH_STATUS: Final = (
    kube.PODS,
    kube.NODES,
    kube.TRAINING_JOBS,
    kube.QUEUES,
    kube.LOCAL_QUEUES,
    kube.GPU_NODES,
    kube.QUOTA_REQUESTS,
    kube.BOOKINGS,
    kube.REMOTE_CLUSTERS,
    kube.SWEEPS,
)
T = TypeVar("T")


class FakeKube:
    """`calls` has those that arrived, in order, as `VERB plural/name[/subresource]`."""

    def __init__(self, *faults: Fault, before_write: kube.BeforeWrite = lambda write: None) -> None:
        self.faults = Faults(list(faults))
        self.calls: list[str] = []
        self.before_write = before_write
        self._objects: dict[tuple[Resource, str], Document] = {}
        self._events: list[tuple[Resource, Document, bool]] = []
        self.logs: dict[tuple[str, str], list[bytes]] = {}
        """(namespace, pod) → what it has printed."""
        self.log_queries: list[dict[str, str]] = []
        self._version = 0
        self._history = WatchHistory()

    async def list(
        self, resource: Resource, namespace: str = "", labels: str = "", *, name: str = "", about: str = ""
    ) -> Listing:
        wanted = dict(label.split("=") for label in labels.split(",") if label)

        def serve() -> Listing:
            found = [one for (kind, _), one in sorted(self._objects.items(), key=_name) if kind == resource]
            here = [one for one in found if namespace in ("", one["metadata"].get("namespace"))]
            labelled = (one for one in here if wanted.items() <= one["metadata"].get("labels", {}).items())
            called = (one for one in labelled if name in ("", one["metadata"]["name"]))
            chosen = (one for one in called if about in ("", one.get("involvedObject", {}).get("uid")))
            return Listing(tuple(chosen), self._version)

        return await self._call(f"LIST {resource.plural}", serve)

    async def watch(
        self, resource: Resource, version: int, *, name: str = ""
    ) -> AsyncGenerator[Sequence[WatchEvent], None]:
        await self._call(f"WATCH {resource.plural}", lambda: None)
        async for events in self._history.watch(resource, version, name):
            yield [replace(one, document=_copy(one.document)) for one in events]

    @contextlib.asynccontextmanager
    async def log(self, pod: str, namespace: str, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """What `logs` has, one chunk at a time; 400 for a pod without a log."""

        async def chunks() -> AsyncIterator[bytes]:
            for one in self.logs[namespace, pod]:
                yield one

        await self._call(f"GET pods/{pod}/log", lambda: None)
        self.log_queries.append(dict(query))
        if (namespace, pod) not in self.logs:
            raise kube.RefusedListError(f"log of {pod} refused (400): ContainerCreating", 400)
        yield chunks()

    def end_watches(self, *, forget: bool = False) -> None:
        """End all watches, as the server does from time to time. With `forget`, no watch can go on from an older
        version."""
        self._history.end_watches(self._version if forget else None)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Reply:
        return await self._on("GET", (resource, name, namespace), lambda found: Reply(Outcome.DONE, found))

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply:
        def serve() -> Reply:
            metadata = body["metadata"] | ({"namespace": namespace} if resource.namespaced else {})
            if not re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", metadata["name"]):
                return Reply(Outcome.REFUSED, message="metadata.name: Invalid value", code=422)
            if self.stored(resource, metadata["name"], namespace):
                return Reply(Outcome.EXISTS, message="already exists", code=409)
            status = {"status": {"phase": "Pending"} if resource == kube.PODS else None}
            made = {**body, **(status if resource in WITH_STATUS else {}), "metadata": metadata}
            return self._store(resource, _merged({}, made))

        return await self._call(f"POST {resource.plural}/{body['metadata']['name']}", serve)

    async def patch(
        self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> Reply:
        def change(old: Document) -> Reply:
            guard = old["metadata"] | body.get("metadata", {})
            if guard["resourceVersion"] != old["metadata"]["resourceVersion"]:
                return Reply(Outcome.CONFLICT, message="the object has been modified", code=409)
            if guard["uid"] != old["metadata"]["uid"]:
                return Reply(Outcome.REFUSED, message="metadata.uid: field is immutable", code=422)
            written = {"status"} if subresource else set(body) - ({"status"} if resource in WITH_STATUS else set())
            new = _merged(old, {key: value for key, value in body.items() if key in written})
            new["metadata"]["generation"] += new.get("spec") != old.get("spec")
            return Reply(Outcome.DONE, old) if new == old else self._store(resource, new)

        return await self._on("PATCH", (resource, name, namespace), change, subresource)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: int = 0,
        grace_s: int | None = None,
    ) -> Reply:
        def change(old: Document) -> Reply:
            if version and str(version) != old["metadata"]["resourceVersion"]:
                return Reply(Outcome.CONFLICT, message="Precondition failed: ResourceVersion in precondition", code=409)
            if uid and uid != old["metadata"]["uid"]:
                return Reply(Outcome.CONFLICT, message="Precondition failed: UID in precondition", code=409)
            ended = resource != kube.PODS or old["status"].get("phase") in {"Succeeded", "Failed"}
            if ended or not old["spec"].get("nodeName") or grace_s == 0:
                return self.remove(resource, name, namespace)
            going = _merged(old, {"metadata": _deletion(old, grace_s)})
            return Reply(Outcome.DONE, old) if going == old else self._store(resource, going)

        return await self._on("DELETE", (resource, name, namespace), change)

    def stored(self, resource: Resource, name: str, namespace: str = "") -> Document | None:
        return self._objects.get((resource, f"{namespace}/{name}" if namespace else name))

    def put(self, resource: Resource, document: Mapping[str, Any]) -> Document:
        """Write a whole object as another client does, its status included; a uid in it is kept."""
        return self._store(resource, _merged({}, document)).document

    def remove(self, resource: Resource, name: str, namespace: str = "") -> Reply:
        """Remove an object at once, as the kubelet does with a pod that has ended."""
        document = self._store(resource, self._objects[resource, f"{namespace}/{name}" if namespace else name]).document
        self._events[-1] = (resource, self._objects.pop((resource, kube.key_of(document["metadata"]))), True)
        self._history.note(resource, WatchEvent("DELETED", document, self._version))
        return Reply(Outcome.DONE, document if resource == kube.PODS else {"kind": "Status", "status": "Success"})

    def snapshot(self) -> Callable[[], None]:
        """What restores etcd as it is now: later objects are gone, versions begin again, and no watch gets an event."""
        objects, version = dict(self._objects), self._version

        def restore() -> None:
            self._objects, self._version, self._events = dict(objects), version, []

        return restore

    def deliver(self, put: Callable[[Resource, Document, bool], None]) -> None:
        """Hand on what the watch has not handed on yet: (resource, object, deleted), in the order of the writes."""
        events, self._events = self._events, []
        for resource, document, deleted in events:
            put(resource, _copy(document), deleted)

    def _store(self, resource: Resource, document: Document) -> Reply:
        self._version += 1
        made = {"uid": f"uid-{self._version}", "creationTimestamp": CREATED_AT, "generation": 1}
        metadata = made | document["metadata"] | {"resourceVersion": str(self._version)}
        known = (resource, kube.key_of(metadata)) in self._objects
        stored = self._objects[resource, kube.key_of(metadata)] = document | {"metadata": metadata}
        self._events.append((resource, stored, False))
        self._history.note(resource, WatchEvent("MODIFIED" if known else "ADDED", stored, self._version))
        return Reply(Outcome.DONE, stored)

    async def _on(
        self, verb: str, one: tuple[Resource, str, str], change: Callable[[Document], Reply], subresource: str = ""
    ) -> Reply:
        def serve() -> Reply:
            old = self.stored(*one)
            return change(old) if old else Reply(Outcome.MISSING, message="not found", code=404)

        return await self._call("/".join(filter(None, (f"{verb} {one[0].plural}", one[1], subresource))), serve)

    async def _call(self, call: str, serve: Callable[[], T]) -> T:
        await asyncio.sleep(0)  # others run while a call is on its way
        fault = self.faults.strike(call)
        if not call.startswith(("GET", "LIST", "WATCH")):
            self.before_write(call)
        if fault.lost != "request":
            self.calls.append(call)
            answer: T = _copy(serve() if fault.answer is None else fault.answer)
        if fault.lost:
            raise UnreachableError(f"{call} failed: the {fault.lost} was lost")
        return answer


def _name(stored: tuple[tuple[Resource, str], Document]) -> str:
    return stored[0][1]


def _deletion(pod: Document, grace_s: int | None) -> dict[str, Any]:
    """Metadata of a pod that was asked to end: a later request can only shorten what the first one gave."""
    asked = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace_s is None else grace_s
    before = pod["metadata"].get("deletionGracePeriodSeconds")
    if before is not None and asked >= before:
        return {}
    first = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]).timestamp() - before if before else time.time()
    ends_at = datetime.fromtimestamp(first + asked, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"deletionTimestamp": ends_at, "deletionGracePeriodSeconds": asked}


def _merged(old: Mapping[str, Any], change: Mapping[str, Any]) -> Document:
    """JSON merge patch (RFC 7386), without a part in common with either."""
    new: Document = {key: _copy(value) for key, value in old.items() if key not in change}
    for key, value in change.items():
        before = old.get(key)
        nested = isinstance(value, Mapping)
        new[key] = _merged(before if isinstance(before, dict) else {}, value) if nested else _copy(value)
    return {key: value for key, value in new.items() if value is not None}


def _copy(value: Any) -> Any:
    """A deep copy of JSON, faster than `copy.deepcopy`: a simulation makes thousands."""
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(one) for one in value]
    if isinstance(value, Reply):
        return replace(value, document=_copy(value.document))
    return Listing(tuple(map(_copy, value.items)), value.version) if isinstance(value, Listing) else value
