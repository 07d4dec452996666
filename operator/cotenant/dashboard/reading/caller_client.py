"""The API server with one caller's credentials.

It reads objects, events and logs, asks who the caller is, connects to pods, and writes the one status that a page has a
form for: answers to QuotaRequests. A refusal of the API server is a `DeniedError` with its own words. No answer is an
`UnreachableError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

from cotenant import names
from cotenant.controller.client.kube import (
    PODS,
    Document,
    Listing,
    Resource,
    UnreachableError,
    VersionGoneError,
    WatchEvent,
)
from cotenant.controller.client.watch_stream import GONE, WatchStream
from cotenant.dashboard.reading.pod_streams import PIECE_BYTES, PROTOCOL, PodStream, output
from cotenant.sdk.api_session import ApiSession, connector, way_to
from cotenant.sdk.errors import CotenantError, CredentialsError
from cotenant.sdk.kubeconfig import ApiServer

SELF_SUBJECT_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", namespaced=False)
SELF_ACCESS_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False)
PAGE: Final = 125
"""Objects per page of a list. Such a page is parsed in some 20 ms, and other requests run between two pages."""
WATCH_S: Final = 60
"""After this many seconds a watch starts again, and the caller's rights are checked again."""
QUIET_S: Final = 90.0
CALL_S: Final = 15.0
CONNECTIONS: Final = 32
STREAMS_OF_ONE: Final = 256
"""At most this many connections into pods per caller."""
LOG_BYTES: Final = 64 * 1024


class DeniedError(RuntimeError):
    """The API server refuses this to the caller, or the object does not exist; in its own words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message or f"the API server answered {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Scope:
    """A set of objects that are followed together. An empty namespace stands for all namespaces, an empty name for all
    names.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    labels: str = ""
    fields: str = ""
    page: int = PAGE
    """Query parameters for one page of a list."""

    @property
    def selectors(self) -> dict[str, str]:
        """Query parameters of the list and of the watch."""
        fields = ",".join(filter(None, (f"metadata.name={self.name}" if self.name else "", self.fields)))
        return {key: one for key, one in (("labelSelector", self.labels), ("fieldSelector", fields)) if one}


def token_of_caller(url: str, authority: Path, token: str) -> ApiServer:
    """The API server with a bearer token. `authority`: the certificates that signed the API server's certificate."""
    return ApiServer(url, "", {"certificate-authority": str(authority)}, {"token": token})


class CallerClient:
    """The API server for one caller. Every call may raise DeniedError or UnreachableError.

    Its credentials appear in no message and in no representation.
    """

    def __init__(self, server: ApiServer) -> None:
        self._api = ApiSession(server, CALL_S, CONNECTIONS)
        self._streams: aiohttp.ClientSession | None = None
        self._is_over = False

    async def pages(self, scope: Scope) -> AsyncGenerator[Listing, None]:
        """The objects of the scope, page by page. All pages have one version."""
        query = {"limit": str(scope.page)} | scope.selectors
        while True:
            document = await self._document("GET", scope.resource.path(scope.namespace), query)
            metadata = document.get("metadata") or {}
            yield Listing(tuple(document.get("items") or ()), int(metadata.get("resourceVersion") or 0))
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def objects(self, scope: Scope) -> list[Document]:
        """All objects of the scope."""
        return [one async for page in self.pages(scope) for one in page.items]

    async def watch(self, scope: Scope, version: int) -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Changes after this version, for about a minute. May also raise VersionGoneError."""
        stream = WatchStream(scope.resource.plural)
        query = {"watch": "1", "resourceVersion": str(version), "allowWatchBookmarks": "true"}
        query |= scope.selectors | {"timeoutSeconds": str(WATCH_S)}
        with _as_its_own():
            async for chunk in self._api.chunks(scope.resource.path(scope.namespace), query, QUIET_S):
                if events := stream.feed(chunk):
                    yield events

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Document:
        return await self._document("GET", resource.path(namespace, name), {})

    async def review(self, resource: Resource, spec: Mapping[str, Any]) -> Document:
        """The status of a review of the caller themselves. It changes nothing."""
        group = f"{resource.group}/{resource.version}"
        kind = {one.plural: kind for one, kind in _KINDS}[resource.plural]
        body = {"apiVersion": group, "kind": kind, "spec": dict(spec)} if spec else {"apiVersion": group, "kind": kind}
        return dict((await self._document("POST", resource.path(), {}, body)).get("status") or {})

    async def patch_status(self, resource: Resource, name: str, namespace: str, body: Mapping[str, Any]) -> None:
        """Merge this into the object's status, in the caller's name."""
        await self._bytes("PATCH", resource.path(namespace, name, "status"), {}, body)

    async def logs(self, namespace: str, pod: str, lines: int) -> str:
        """The last lines that the worker container printed, at most LOG_BYTES."""
        path = PODS.path(namespace, pod, "log")
        query = {"container": names.CONTAINER, "tailLines": str(lines), "limitBytes": str(LOG_BYTES)}
        return (await self._bytes("GET", path, query)).decode(errors="replace")

    async def output_of(self, namespace: str, pod: str, command: Sequence[str]) -> str:
        """What the command prints in the worker container. Raises UnreachableError also if the command fails."""
        query = [("container", names.CONTAINER), ("stdout", "true"), ("stderr", "true")]
        query += [("command", word) for word in command]
        return await output(await self._stream(namespace, pod, "exec", query))

    async def forward(self, namespace: str, pod: str, port: int) -> PodStream:
        """A connection to this port on 127.0.0.1 of the pod."""
        return PodStream(await self._stream(namespace, pod, "portforward", [("ports", str(port))]))

    async def close(self) -> None:
        self._is_over = True
        await self._api.close()
        if self._streams is not None:
            await self._streams.close()

    async def _stream(
        self, namespace: str, pod: str, what: str, query: Sequence[tuple[str, str]]
    ) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket to the pod. It has a connection pool of its own, so that streams cannot use up the connections
        for reads.
        """
        server = self._server()
        with _as_its_own():
            if self._streams is None:
                self._streams = aiohttp.ClientSession(
                    connector=connector(server.proxy, server.tls() if server.is_https else True, STREAMS_OF_ONE),
                    timeout=aiohttp.ClientTimeout(total=None, connect=CALL_S, sock_connect=5.0),
                    cookie_jar=aiohttp.DummyCookieJar(),
                )
            headers = await asyncio.to_thread(server.authorization)
        try:
            return await self._streams.ws_connect(
                server.url.rstrip("/") + PODS.path(namespace, pod, what),
                params=query,
                headers=headers,
                protocols=(PROTOCOL,),
                max_msg_size=PIECE_BYTES,
                **way_to(server),
            )
        except aiohttp.WSServerHandshakeError as error:
            if error.status == 429 or error.status >= 500:
                raise UnreachableError(f"the API server answered {error.status} to pods/{what}") from error
            raise DeniedError(
                error.status, f"the API server answered {error.status} to pods/{what} of {pod}"
            ) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnreachableError(f"the API server is not reached: {type(error).__name__}") from error

    def _server(self) -> ApiServer:
        if self._is_over:
            raise UnreachableError("the login is over")
        return self._api.server

    async def _document(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None = None
    ) -> Document:
        raw = await self._bytes(method, path, query, body)
        try:
            document = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise UnreachableError(f"{method} {path}: no JSON") from error
        return document if isinstance(document, dict) else {}

    async def _bytes(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None = None
    ) -> bytes:
        self._server()
        with _as_its_own():
            return await self._api.content(method, path, body, query)


_KINDS: Final = ((SELF_SUBJECT_REVIEWS, "SelfSubjectReview"), (SELF_ACCESS_REVIEWS, "SelfSubjectAccessReview"))


@contextmanager
def _as_its_own() -> Iterator[None]:
    """Raises errors of the way to the API server as those of this client."""
    try:
        yield
    except (UnreachableError, VersionGoneError):
        raise
    except (CredentialsError, OSError) as error:  # of a file, or of a program of the person's own
        raise UnreachableError(f"it is not known who asks: {error}") from error
    except CotenantError as error:
        if error.code == GONE:
            raise VersionGoneError(str(error)) from error
        if not error.code:  # strangers read it at the login: no addresses
            raise UnreachableError(f"the API server is not reached: {type(error.__cause__).__name__}") from error
        if error.code == 429 or error.code >= 500:
            raise UnreachableError(str(error)) from error
        raise DeniedError(error.code, str(error)) from error
