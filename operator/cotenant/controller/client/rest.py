"""REST client of the API server, the one real `Kube`: aiohttp and orjson.

Three times the rate of the typed client, which matters because every admission is a handful of writes. Every call has a
deadline. Connection errors, 429 and 5xx are retried with exponential backoff, or after the server's Retry-After. A 401
loads the credentials again: service-account tokens rotate.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from kubernetes.client import Configuration

from cotenant.controller.client.credentials import authorization, load_configuration, tls, trusted, way_to
from cotenant.controller.client.kube import (
    PODS,
    BeforeWrite,
    Document,
    FailedWebhookError,
    FailingServerError,
    FencedError,
    Listing,
    MissingKindError,
    RefusedListError,
    Reply,
    Resource,
    StaleTrustError,
    UnreachableError,
    VersionGoneError,
    WatchEvent,
)
from cotenant.controller.client.log_stream import log_of
from cotenant.controller.client.priority_semaphore import PrioritySemaphore
from cotenant.controller.client.replies import is_final, is_of_a_webhook, read_reply
from cotenant.controller.client.trimming import PackedPods
from cotenant.controller.client.watch_stream import GONE, WatchStream

log = logging.getLogger(__name__)

MERGE_PATCH = "application/merge-patch+json"
PAGE = 500
"""Objects per page of a list: a whole large list in one answer would cost the server its memory."""

WEBHOOK_ATTEMPTS = 3
"""Attempts of a write that an admission webhook holds up by not answering. One attempt may take its 10 s."""

WATCHES = 8
"""Connections for watches, beside those of `in_flight`."""
WATCH_S = 240
"""After so long the server ends a watch, and the next one goes on."""
WATCH_BUFFER = 1 << 20
"""Bytes of a watch that are read ahead, so that many events can be read at once."""
QUIET_S = 90.0
"""A watch without any data for this long is dead: the server sends a bookmark about every minute."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempts of one call, the deadline of each, and the pauses between them, which double."""

    attempts: int = 6
    call_timeout_s: float = 15.0
    first_backoff_s: float = 0.1
    max_backoff_s: float = 5.0


class RestKube:
    """Client with a connection pool, to be opened with `async with`."""

    def __init__(
        self,
        load: Callable[[], Configuration] | None = None,
        *,
        retry: RetryPolicy = RetryPolicy(),
        in_flight: int = 50,
        on_call: Callable[[str, str, int], None] = lambda method, path, code: None,
        before_write: BeforeWrite = lambda write: None,
    ) -> None:
        """`on_call` gets method, path and code of each attempt (0: no answer). `before_write` may refuse a write."""
        self._before_write = before_write
        self._load = load or load_configuration
        self._retry = retry
        self._semaphore = PrioritySemaphore(in_flight)
        self._in_flight = in_flight
        self._on_call = on_call
        self._configuration: Configuration = self._load()
        self._trusted = trusted(self._configuration)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> RestKube:
        self._session = self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def list(
        self, resource: Resource, namespace: str = "", labels: str = "", *, name: str = "", about: str = ""
    ) -> Listing:
        everybodys_pods = resource == PODS and not namespace and not labels
        items = PackedPods() if everybodys_pods else list[Document]()
        expired = False
        query = {"limit": str(PAGE)} | ({"labelSelector": labels} if labels else {}) | _only(name, about)
        while True:
            reply = await self._call("GET", resource.path(namespace), query=query)
            if reply.code == 410:  # the continuation is too old: start over, the next time in one piece
                items = PackedPods() if everybodys_pods else []
                if query.pop("continue", None) is None and "limit" not in query:
                    raise UnreachableError(f"list of {resource.plural} is not had in one piece: {reply.message}")
                if expired:
                    query.pop("limit", None)
                expired = True
                continue
            if not reply.done:
                refused = f"list of {resource.plural} refused ({reply.code}): {reply.message}"
                if reply.code == 404:
                    raise MissingKindError(f"{refused}; is its CustomResourceDefinition installed?")
                raise RefusedListError(refused, reply.code)
            items.extend(reply.document.get("items") or [])
            metadata = reply.document["metadata"]
            if about or not metadata.get("continue"):
                return Listing(items, int(metadata.get("resourceVersion") or 0))
            query["continue"] = metadata["continue"]

    async def watch(
        self, resource: Resource, version: int, *, name: str = ""
    ) -> AsyncGenerator[Sequence[WatchEvent], None]:
        session, path = self._opened(), resource.path()
        query = {"watch": "1", "resourceVersion": str(version), "allowWatchBookmarks": "true"} | _only(name)
        stream = WatchStream(resource.plural)
        try:
            async with session.get(
                self._configuration.host + path,
                params=query | {"timeoutSeconds": str(WATCH_S)},
                headers=authorization(self._configuration),
                **way_to(self._configuration),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=QUIET_S),
                read_bufsize=WATCH_BUFFER,
            ) as response:
                self._on_call("WATCH", path, response.status)
                if response.status != 200:
                    await self._refuse_watch(session, resource, read_reply(response.status, await response.read()))
                async for chunk in response.content.iter_any():
                    if events := stream.feed(chunk):
                        yield events
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnreachableError(f"watch of {resource.plural} broke: {type(error).__name__}: {error}") from error

    async def _refuse_watch(self, session: aiohttp.ClientSession, resource: Resource, reply: Reply) -> None:
        if reply.code == 401:
            await self._reopen(session)
        message = f"watch of {resource.plural} refused ({reply.code}): {reply.message}"
        raise VersionGoneError(message) if reply.code == GONE else UnreachableError(message)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Reply:
        return await self._call("GET", resource.path(namespace, name))

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply:
        return await self._call("POST", resource.path(namespace), body=body)

    async def patch(
        self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> Reply:
        return await self._call("PATCH", resource.path(namespace, name, subresource), body=body)

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
        options: Document = {"propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid} | ({"resourceVersion": str(version)} if version else {})
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        return await self._call("DELETE", resource.path(namespace, name), body=options)

    def log(
        self, pod: str, namespace: str, query: Mapping[str, str]
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return log_of(self._opened(), self._configuration, (namespace, pod), query)

    async def _call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> Reply:
        """Send one call with its retries. All five verbs are safe to repeat: names are ours, patches are guarded."""
        last, answered, webhook_failed = "", 0, 0
        for attempt in range(self._retry.attempts):
            try:
                async with self._semaphore.acquire(priority_of(method, path)):
                    session = self._opened()  # not before: it may be replaced while this call is in line
                    if method != "GET":
                        self._before_write(f"{method} {path}")
                    code, headers, raw = await self._send(session, method, path, query, body)
            except FencedError as error:
                if last:  # an earlier attempt was sent and may have been carried out
                    raise UnreachableError(f"{error}; an earlier attempt failed: {last}") from error
                raise
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                last = f"{type(error).__name__}: {error}"
                self._check_trust(error)
                self._on_call(method, path, 0)
                await asyncio.sleep(self._backoff_s(attempt, None))
                continue
            self._on_call(method, path, code)
            if code == 401 and attempt < 2:
                await self._reopen(session)
                last = "401 Unauthorized"
                continue
            if code == 429 or (code >= 500 and not is_final(raw)):
                message = read_reply(code, raw).message
                last = f"{code} {message}".rstrip()
                answered += 1
                webhook_failed += is_of_a_webhook(raw)
                if webhook_failed == attempt + 1 >= WEBHOOK_ATTEMPTS:  # every attempt was answered so
                    raise FailedWebhookError(message)
                await asyncio.sleep(self._backoff_s(attempt, headers.get("Retry-After")))
                continue
            return read_reply(code, raw)
        failed = FailingServerError if answered == self._retry.attempts else UnreachableError
        raise failed(f"{method} {path} failed {self._retry.attempts} times; last: {last}")

    async def _send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = authorization(self._configuration)
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else "application/json"
        async with session.request(
            method,
            self._configuration.host + path,
            params=query,
            data=orjson.dumps(body) if body is not None else None,
            headers=headers,
            **way_to(self._configuration),
        ) as response:
            return response.status, response.headers, await response.read()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("RestKube is used outside of `async with`")
        return self._session

    def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._in_flight + 2 + WATCHES, ssl=tls(self._configuration)),
            timeout=aiohttp.ClientTimeout(total=self._retry.call_timeout_s, sock_connect=5.0),
            headers={"Accept": "application/json", "User-Agent": "cotenant-operator"},
            cookie_jar=aiohttp.DummyCookieJar(),  # the API server sets none, and a jar is searched at every call
        )

    async def _reopen(self, refused: aiohttp.ClientSession) -> None:
        """Load the credentials once for all calls that were refused together. Interrupted calls are retried."""
        if self._session is not refused:
            return
        log.warning("the API server answered 401: credentials are read again")
        self._configuration = self._load()
        self._session = self._open()
        await refused.close()

    def _check_trust(self, error: Exception) -> None:
        """Raise StaleTrustError if the API server is not trusted and other authorities are mounted by now."""
        if isinstance(error, aiohttp.ClientConnectorCertificateError) and trusted(self._load()) != self._trusted:
            raise StaleTrustError(f"the certificate authority of the API server was renewed: {error}") from error

    def _backoff_s(self, attempt: int, retry_after: str | None) -> float:
        if retry_after is not None and retry_after.isdigit():
            return min(float(retry_after), self._retry.max_backoff_s)
        grown = self._retry.first_backoff_s * 2.0**attempt
        return min(grown, self._retry.max_backoff_s) * random.uniform(0.5, 1.0)


def _only(name: str, about: str = "") -> dict[str, str]:
    chosen = [f"{field}={value}" for field, value in (("metadata.name", name), ("involvedObject.uid", about)) if value]
    return {"fieldSelector": ",".join(chosen)} if chosen else {}


def priority_of(method: str, path: str) -> int:
    """Order calls that wait for a connection: commits and evictions, then creates and reads, then Kubernetes Events."""
    if method in {"PATCH", "DELETE"}:
        return 0
    return 2 if method == "POST" and path.endswith("/events") else 1
