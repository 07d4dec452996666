"""The API server of a simulation: the rules of `FakeKube`, and a log of changes with their authors, in order, for
watchers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from cotenant.controller.client.kube import Document, Resource, key_of
from tests.support.fake_kube import FakeKube

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change:
    at: float
    by: str
    """Who wrote it."""
    resource: Resource
    document: Document
    """As it is now, or as it was last."""
    before: Document | None
    deleted: bool

    @property
    def uid(self) -> str:
        return str(self.document["metadata"]["uid"])

    @property
    def key(self) -> str:
        return key_of(self.document["metadata"])


class ApiServer:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.kube = FakeKube()
        self.watchers: list[Callable[[Change], None]] = []
        """Called with each change, at once."""
        self.on_write: Callable[[str, str], None] = lambda by, call: None
        """Called with each write of a replica that arrives: by whom, and which."""
        self.changes: dict[Resource, list[Change]] = defaultdict(list)
        self.objects: dict[Resource, dict[str, Document]] = defaultdict(dict)
        """By `namespace/name`. To be read only."""
        self._by = ""
        self._waiting: dict[Resource, list[asyncio.Future[None]]] = defaultdict(list)

    def perform(self, by: str, call: Callable[[FakeKube], Coroutine[Any, Any, T]]) -> T:
        """Carry a call out in one step."""
        coroutine = call(self.kube)
        self._by = by
        try:
            while True:
                coroutine.send(None)
        except StopIteration as end:
            self.kube.deliver(self._publish)
            answer: T = end.value
            return answer

    def put(self, by: str, resource: Resource, document: Document) -> Document:
        """Write a whole object, its status included."""
        self._by = by
        stored = self.kube.put(resource, document)
        self.kube.deliver(self._publish)
        return stored

    def remove(self, by: str, resource: Resource, key: str) -> None:
        """Remove an object at once, as a kubelet does with a pod that has ended."""
        namespace, _, name = key.rpartition("/")
        if self.kube.stored(resource, name, namespace) is not None:
            self._by = by
            self.kube.remove(resource, name, namespace)
            self.kube.deliver(self._publish)

    async def wait_for_change(self, resource: Resource, position: int) -> None:
        """Wait until there are more changes of this kind than `position`."""
        while len(self.changes[resource]) <= position:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[resource].append(waiter)
            await waiter

    def _publish(self, resource: Resource, document: Document, deleted: bool) -> None:
        here, key = self.objects[resource], key_of(document["metadata"])
        change = Change(self._now(), self._by, resource, document, here.get(key), deleted)
        if deleted:
            here.pop(key, None)
        else:
            here[key] = document
        self.changes[resource].append(change)
        for waiter in self._waiting.pop(resource, []):
            if not waiter.done():
                waiter.set_result(None)
        for watcher in self.watchers:
            watcher(change)
