"""A caller of the API server in memory: objects of a `FakeKube`, answers of the operator, and what they may not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from cotenant.controller.client.kube import Document, Listing, Outcome, Resource, UnreachableError, WatchEvent
from cotenant.dashboard.reading.caller_client import SELF_SUBJECT_REVIEWS, CallerClient, DeniedError, Scope
from cotenant.dashboard.reading.pod_streams import PodStream
from tests.support.fake_kube import FakeKube


class SocketOfPod(PodStream):
    """A connection to a port of this machine, as one to a port of a pod."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(65536)

    async def write(self, piece: bytes) -> None:
        self._writer.write(piece)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()


class FakeCaller(CallerClient):
    """`denied`: (plural, namespace) that the API server refuses; `answers`: those of `query.cotenant.dev` by path;
    `approves`: may answer QuotaRequests; `forwards`: may forward ports of pods; `pods`: what listens in a pod, as a
    port of this machine, and the file that a session writes there.
    """

    def __init__(
        self,
        kube: FakeKube,
        *,
        denied: Callable[[str, str], bool] = lambda plural, namespace: False,
        answers: Mapping[str, Any] | None = None,
        log: str = "",
        user: str = "alice",
        approves: bool = True,
    ) -> None:
        self.kube, self.denied, self.answers, self.log, self.user = kube, denied, dict(answers or {}), log, user
        self.approves = approves
        self.forwards = True
        self.pods: dict[str, tuple[int, Any]] = {}
        self.calls: list[str] = []
        self.is_closed = False
        self.token_ended = False

    async def pages(self, scope: Scope) -> AsyncGenerator[Listing, None]:
        self._ask("LIST", scope.resource, scope.namespace)
        if scope.resource.path() in self.answers:
            items = self.answers[scope.resource.path()]
            yield Listing(tuple(one for one in items if scope.namespace in ("", one["metadata"].get("namespace"))), 1)
            return
        found = await self.kube.list(scope.resource, scope.namespace, scope.labels, name=scope.name)
        yield Listing(tuple(one for one in found.items if _is_selected(one, scope.fields)), found.version)

    async def watch(self, scope: Scope, version: int) -> AsyncGenerator[Sequence[WatchEvent], None]:
        self._ask("WATCH", scope.resource, scope.namespace)
        async for events in self.kube.watch(scope.resource, version, name=scope.name):
            yield [one for one in events if scope.namespace in ("", one.document["metadata"].get("namespace"))]

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Document:
        self._ask("GET", resource, namespace)
        path = resource.path(namespace, name)
        if path in self.answers:
            return dict(self.answers[path])
        found = await self.kube.get(resource, name, namespace)
        if not found.done:
            raise DeniedError(404, f"{resource.plural} {name!r} not found")
        return found.document

    async def review(self, resource: Resource, spec: Mapping[str, Any]) -> Document:
        self._ask("POST", resource, "")
        if resource == SELF_SUBJECT_REVIEWS:
            return {"userInfo": {"username": self.user}}
        asked = spec["resourceAttributes"]
        if asked["verb"] == "approve":
            return {"allowed": self.approves}
        if asked.get("subresource") == "portforward":
            return {"allowed": self.forwards}
        return {"allowed": not self.denied(asked["resource"], "")}

    async def patch_status(self, resource: Resource, name: str, namespace: str, body: Mapping[str, Any]) -> None:
        self._ask("PATCH", resource, namespace)
        if not self.approves:
            raise DeniedError(403, "only who may approve quotarequests answers one")
        reply = await self.kube.patch(resource, name, body, namespace=namespace, subresource="status")
        if reply.outcome is not Outcome.DONE:
            raise DeniedError(reply.code, reply.message)

    async def logs(self, namespace: str, pod: str, lines: int) -> str:
        self.calls.append(f"LOG {namespace}/{pod}")
        return "\n".join(self.log.split("\n")[-lines:])

    async def output_of(self, namespace: str, pod: str, command: Sequence[str]) -> str:
        self.calls.append(f"EXEC {namespace}/{pod} {' '.join(command)}")
        return json.dumps(self.pods[pod][1])

    async def forward(self, namespace: str, pod: str, port: int) -> PodStream:
        self.calls.append(f"FORWARD {namespace}/{pod} {port}")
        if not self.forwards:
            raise DeniedError(403, "the API server answered 403 to pods/portforward")
        try:
            return SocketOfPod(*await asyncio.open_connection("127.0.0.1", self.pods[pod][0]))
        except OSError as error:
            raise UnreachableError("nothing listens there") from error

    async def close(self) -> None:
        self.is_closed = True

    def _ask(self, verb: str, resource: Resource, namespace: str) -> None:
        self.calls.append(f"{verb} {namespace}/{resource.plural}".replace(" /", " "))
        if self.token_ended:
            raise DeniedError(401, "Unauthorized")
        if verb != "POST" and self.denied(resource.plural, namespace):
            raise DeniedError(403, f'User "{self.user}" cannot list resource "{resource.plural}"')


def _is_selected(document: Document, fields: str) -> bool:
    wanted, _, value = fields.partition("=")
    return wanted != "involvedObject.uid" or document.get("involvedObject", {}).get("uid") == value
