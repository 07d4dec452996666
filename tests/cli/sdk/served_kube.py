"""FakeKube behind the paths that the SDK asks: what an `ApiSession` is to it, in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from cotenant.controller.client import kube
from cotenant.controller.client.kube import Outcome, Reply, Resource
from cotenant.sdk.errors import CotenantError, MissingObjectError, RequestRefusedError
from tests.support.fake_kube import FakeKube

RESOURCES: Final = {
    one.plural: one for one in (kube.TRAINING_JOBS, kube.SWEEPS, kube.SESSIONS, kube.CONFIG_MAPS, kube.PODS)
}
Document = dict[str, Any]


class ServedKube:
    """`answers`: what the operator says to a question, by its path; `printed`: what a pod has printed."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.answers: dict[str, Document] = {}
        self.printed: dict[str, list[str]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True

    async def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> Document:
        self.asked.append((f"{method} {path}", body))
        if path in self.answers:
            return self.answers[path]
        resource, namespace, name = self._parts(path)
        if (query or {}).get("dryRun"):
            return await self._looked_at(resource, namespace, body or {})
        match method:
            case "GET" if not name:
                labels = (query or {}).get("labelSelector", "")
                found = await self.kube.list(resource, namespace, labels)
                return {"items": list(found.items), "metadata": {}}
            case "GET":
                return _document(await self.kube.get(resource, name, namespace))
            case "POST":
                return _document(await self.kube.create(resource, body or {}, namespace))
            case "PATCH":
                return _document(await self.kube.patch(resource, name, body or {}, namespace=namespace))
        uid = (body or {}).get("preconditions", {}).get("uid", "")
        return _document(await self.kube.delete(resource, name, namespace, uid=uid))

    async def _looked_at(self, resource: Resource, namespace: str, body: Mapping[str, Any]) -> Document:
        """A dry run of what is to be made."""
        name = body["metadata"].get("name", "")
        if name and (await self.kube.get(resource, name, namespace)).done:
            raise RequestRefusedError(f'{resource.plural} "{name}" already exists')
        return dict(body)

    async def lines(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        self.asked.append((f"GET {path}", dict(query or {})))
        for line in self.printed[path.split("/")[-2]]:
            yield line.encode()

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[tuple[str, Document]]:
        resource, _, _ = self._parts(path)
        name = query["fieldSelector"].removeprefix("metadata.name=")
        async for events in self.kube.watch(resource, int(query["resourceVersion"]), name=name):
            for one in events:
                if one.kind != "BOOKMARK":
                    yield one.kind, one.document

    @staticmethod
    def _parts(path: str) -> tuple[Resource, str, str]:
        namespace, plural, *name = path.partition("/namespaces/")[2].split("/")
        return RESOURCES[plural], namespace, name[0] if name else ""


def _document(reply: Reply) -> Document:
    if reply.done:
        return reply.document
    kind: type[CotenantError] = MissingObjectError if reply.outcome is Outcome.MISSING else RequestRefusedError
    raise kind(reply.message)
