"""Client of the simulated API server: calls travel, arrive or not, and so do their answers.

A call that was sent arrives even if its process is killed meanwhile. Calls of one process may arrive in another order
than they were sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from random import Random
from typing import Any, TypeVar

from cotenant.controller.client.kube import (
    EVENTS,
    BeforeWrite,
    Document,
    Listing,
    Outcome,
    Reply,
    Resource,
    UnreachableError,
    WatchEvent,
)
from tests.support.fake_kube import FakeKube
from tests.support.simulation.feed import Feed
from tests.support.simulation.virtual_loop import Process, context_of

T = TypeVar("T")
TRAVEL_S_MAX = 1.0
"""The longest way of a call to the server: less than leader election allows for (`LeaseTimes`)."""


class CallFault(StrEnum):
    """What befalls one call."""

    REQUEST_LOST = "RequestLost"
    ANSWER_LOST = "AnswerLost"
    """It has happened, and its client does not know."""
    ANSWER_LATE = "AnswerLate"
    SENT_TWICE = "SentTwice"
    """The client asked again, and has the second answer."""
    REFUSED = "Refused"
    """By an admission policy."""
    CONFLICT = "Conflict"
    """Somebody writes the object while the call is on its way."""
    KILLED_BEFORE = "KilledBefore"
    KILLED_AFTER = "KilledAfter"
    """The process ends with the call under way."""
    PAUSED = "Paused"
    """The process stands still with the call under way."""


@dataclass(slots=True)
class PendingFault:
    fault: CallFault
    call: str
    """Pattern of the calls that it may befall, such as `PATCH trainingjobs/*`."""
    seconds: float


@dataclass(slots=True)
class Line:
    """The connection of one replica to the API server; it outlives the replica's processes."""

    dice: Random
    tell: Callable[[str], None]
    faults: list[PendingFault] = field(default_factory=list)
    down_until: float = 0.0

    def strike(self, call: str) -> PendingFault | None:
        for pending in self.faults:
            if fnmatchcase(call, pending.call):
                self.faults.remove(pending)
                self.tell(f"{pending.fault} ({pending.seconds:.0f} s): {call}")
                return pending
        return None


class ApiClient:
    """The `Kube` of one process."""

    def __init__(
        self,
        feed: Feed,
        process: Process,
        line: Line,
        *,
        before_write: BeforeWrite = lambda write: None,
    ) -> None:
        """`feed`: what this process observes of the server."""
        self._server = feed.server
        self._feed = feed
        self._process = process
        self._line = line
        self._before_write = before_write

    async def __aenter__(self) -> ApiClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to close."""

    async def list(
        self, resource: Resource, namespace: str = "", labels: str = "", *, name: str = "", about: str = ""
    ) -> Listing:
        call = f"LIST {resource.plural}"
        return await self._call(call, lambda kube: kube.list(resource, namespace, labels, name=name, about=about))

    def watch(self, resource: Resource, version: int, *, name: str = "") -> AsyncGenerator[Sequence[WatchEvent], None]:
        return self._feed.watch(resource, version, name)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Reply:
        return await self._call(f"GET {resource.plural}/{name}", lambda kube: kube.get(resource, name, namespace))

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply:
        call = f"POST {resource.plural}/{body['metadata']['name']}"
        if resource == EVENTS:  # nobody here reads them, and lists would grow
            self._before_write(call)
            return Reply(Outcome.DONE, dict(body))
        return await self._call(call, lambda kube: kube.create(resource, body, namespace))

    async def patch(
        self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> Reply:
        call = "/".join(filter(None, (f"PATCH {resource.plural}/{name}", subresource)))
        touched = (resource, name, namespace)
        return await self._call(
            call,
            lambda kube: kube.patch(resource, name, body, namespace=namespace, subresource=subresource),
            touched,
        )

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
        return await self._call(
            f"DELETE {resource.plural}/{name}",
            lambda kube: kube.delete(resource, name, namespace, uid=uid, version=version, grace_s=grace_s),
        )

    async def _call(
        self,
        call: str,
        perform: Callable[[FakeKube], Coroutine[Any, Any, T]],
        touched: tuple[Resource, str, str] | None = None,
    ) -> T:
        if not call.startswith(("GET", "LIST")):
            self._before_write(call)
        loop, line = asyncio.get_running_loop(), self._line
        struck = line.strike(call)
        fault, seconds = (struck.fault, struck.seconds) if struck else (None, 0.0)
        if self._process.killed or fault is CallFault.KILLED_BEFORE:
            self._process.kill()
            raise asyncio.CancelledError
        answer: asyncio.Future[T] = loop.create_future()
        if fault is CallFault.REQUEST_LOST or loop.time() < line.down_until:
            await asyncio.sleep(max(seconds, 0.1))
            raise UnreachableError(f"{call} failed: it never arrived")

        def arrive() -> None:
            if not call.startswith(("GET", "LIST")):
                self._server.on_write(self._process.name, call)
            if fault is CallFault.CONFLICT and touched is not None:
                self._touch(*touched)
            if fault is CallFault.REFUSED:
                refused: Any = Reply(Outcome.REFUSED, message="an admission policy stands against it", code=403)
                back(refused, 0.0)
                return
            reply = self._server.perform(self._process.name, perform)
            if fault is CallFault.SENT_TWICE:
                reply = self._server.perform(self._process.name, perform)
            if fault is CallFault.KILLED_AFTER:
                self._process.kill()
            elif fault is CallFault.PAUSED:
                self._process.paused_until = loop.time() + seconds
            back(reply, seconds if fault in {CallFault.ANSWER_LATE, CallFault.ANSWER_LOST} else 0.0)

        def back(reply: T, late_s: float) -> None:
            loop.call_later(late_s + self._travel_s(), settle, reply)

        def settle(reply: T) -> None:
            if answer.done():
                return
            if fault is CallFault.ANSWER_LOST:
                answer.set_exception(UnreachableError(f"{call} failed: its answer was lost"))
            else:
                answer.set_result(reply)

        loop.call_later(self._travel_s(), arrive, context=context_of(None))
        return await answer

    def _travel_s(self) -> float:
        return min(TRAVEL_S_MAX, self._line.dice.expovariate(200.0 if self._line.dice.random() < 0.97 else 4.0))

    def _touch(self, resource: Resource, name: str, namespace: str) -> None:
        """Another client writes an annotation."""
        body: Document = {"metadata": {"annotations": {"touched": str(self._line.dice.random())}}}
        self._server.perform("another client", lambda kube: kube.patch(resource, name, body, namespace=namespace))
