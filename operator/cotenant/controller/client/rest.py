"""`Kube` over HTTP: aiohttp and orjson, with credentials taken from the kubernetes client's configuration.

Three times the rate of the typed client, which matters because every admission is a handful of writes. Every call has a
deadline. Connection errors, 429 and 5xx are tried again with a growing pause, or the one that the server asks for. 401
loads the credentials again: service-account tokens rotate.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import kubernetes.config
import orjson
from kubernetes.client import Configuration

from cotenant.controller.client.kube import Document, FencedError, Listing, Outcome, Reply, Resource, UnreachableError
from cotenant.controller.client.priority_semaphore import Gate

log = logging.getLogger(__name__)

MERGE_PATCH = "application/merge-patch+json"
PAGE = 500
"""Objects per page of a list: large lists must not hold the server's memory in one piece."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try."""

    attempts: int = 6
    call_s: float = 15.0
    first_pause_s: float = 0.1
    longest_pause_s: float = 5.0


class NoClusterError(RuntimeError):
    """Neither a service account nor a kubeconfig is there."""


class RestKube:
    """The real client. Open it with `async with`."""

    def __init__(
        self,
        load: Callable[[], Configuration] | None = None,
        *,
        patience: Patience = Patience(),
        in_flight: int = 50,
        on_call: Callable[[str, str, int], None] | None = None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_write` is asked at the last moment before a write is sent, after any waiting in line."""
        self.may_write = may_write
        self._load = load or load_configuration
        self._patience = patience
        self._gate = Gate(in_flight)
        self._in_flight = in_flight
        self._on_call = on_call
        self._configuration: Configuration = self._load()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> RestKube:
        self._session = self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def list(self, resource: Resource, namespace: str = "", labels: str = "") -> Listing:
        items: list[Document] = []
        query = {"limit": str(PAGE)} | ({"labelSelector": labels} if labels else {})
        while True:
            reply = await self._call("GET", resource.path(namespace), query=query)
            if reply.code == 410:  # the continuation is too old: start over
                items, _ = [], query.pop("continue", None)
                continue
            if not reply.done:
                hint = "; is its CustomResourceDefinition installed?" if reply.code == 404 else ""
                raise UnreachableError(f"list of {resource.plural} refused ({reply.code}): {reply.message}{hint}")
            items += reply.document.get("items") or []
            metadata = reply.document["metadata"]
            if not metadata.get("continue"):
                return Listing(tuple(items), int(metadata.get("resourceVersion") or 0))
            query["continue"] = metadata["continue"]

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Reply:
        return await self._call("GET", resource.path(namespace, name))

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply:
        return await self._call("POST", resource.path(namespace), body=body)

    async def patch(
        self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> Reply:
        return await self._call("PATCH", resource.path(namespace, name, subresource), body=body)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", grace_s: int | None = None
    ) -> Reply:
        options: Document = {"propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        return await self._call("DELETE", resource.path(namespace, name), body=options)

    async def _call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> Reply:
        """One call with its retries. All six verbs are safe to repeat: names are ours, patches are guarded."""
        last = ""
        for attempt in range(self._patience.attempts):
            session = self._session
            if session is None:
                raise RuntimeError("RestKube is used outside of `async with`")
            try:
                async with self._gate.passage(rank(method, path)):
                    if method != "GET" and not self.may_write():
                        raise FencedError(f"{method} {path} was not sent: this replica does not lead any more")
                    code, headers, raw = await self._send(session, method, path, query, body)
            except FencedError:
                raise
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                last = f"{type(error).__name__}: {error}"
                self._count(method, path, 0)
                await asyncio.sleep(self._pause(attempt, None))
                continue
            self._count(method, path, code)
            if code == 401 and attempt < 2:
                await self._reopen(session)
                last = "401 Unauthorized"
                continue
            if code == 429 or code >= 500:
                last = f"{code} {_reply(code, raw).message}".rstrip()
                await asyncio.sleep(self._pause(attempt, headers.get("Retry-After")))
                continue
            return _reply(code, raw)
        raise UnreachableError(f"{method} {path} failed {self._patience.attempts} times; last: {last}")

    async def _send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = _authorization(self._configuration)
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else "application/json"
        async with session.request(
            method,
            self._configuration.host + path,
            params=query,
            data=orjson.dumps(body) if body is not None else None,
            headers=headers,
            proxy=self._configuration.proxy,
        ) as response:
            return response.status, response.headers, await response.read()

    def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._in_flight + 2, ssl=_tls(self._configuration)),
            timeout=aiohttp.ClientTimeout(total=self._patience.call_s, sock_connect=5.0),
            headers={"Accept": "application/json", "User-Agent": "cotenant-operator"},
        )

    async def _reopen(self, refused: aiohttp.ClientSession) -> None:
        """Once for all calls that were refused together; calls cut off by the close are tried again."""
        if self._session is not refused:
            return
        log.warning("the API server answered 401: credentials are read again")
        self._configuration = self._load()
        self._session = self._open()
        await refused.close()

    def _pause(self, attempt: int, asked: str | None) -> float:
        if asked is not None and asked.isdigit():
            return min(float(asked), self._patience.longest_pause_s)
        grown = self._patience.first_pause_s * 2.0**attempt
        return min(grown, self._patience.longest_pause_s) * random.uniform(0.5, 1.0)

    def _count(self, method: str, path: str, code: int) -> None:
        if self._on_call is not None:
            self._on_call(method, path, code)


def rank(method: str, path: str) -> int:
    """Commits and evictions go first; what follows from them waits, and what is merely told waits longest."""
    if method in {"PATCH", "DELETE"}:
        return 0
    return 2 if method == "POST" and path.endswith("/events") else 1


def load_configuration(kubeconfig: str | None = None) -> Configuration:
    """The kubeconfig that is named; else in a pod its service account, elsewhere `KUBECONFIG` or `~/.kube/config`."""
    configuration = Configuration()
    if kubeconfig is not None:
        kubernetes.config.load_kube_config(kubeconfig, client_configuration=configuration)
        return configuration
    try:
        kubernetes.config.load_incluster_config(client_configuration=configuration)
    except kubernetes.config.ConfigException:
        try:
            kubernetes.config.load_kube_config(client_configuration=configuration)
        except kubernetes.config.ConfigException as error:
            raise NoClusterError(f"no cluster to talk to ({error}); set KUBECONFIG, or run in a pod") from error
    return configuration


def _authorization(configuration: Configuration) -> dict[str, str]:
    """Asked for each call: the configuration re-reads a mounted token, or runs an exec plugin, when it is due."""
    token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    if token:
        return {"Authorization": token}
    if configuration.username:
        pair = f"{configuration.username}:{configuration.password or ''}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
    return {}


def _tls(configuration: Configuration) -> ssl.SSLContext | bool:
    if not str(configuration.host).startswith("https"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _reply(code: int, raw: bytes) -> Reply:
    try:
        document: Document = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError:  # what is not an API object: the 404 of a resource that is not installed
        document = {"message": raw[:200].decode(errors="replace").strip()}
    if code < 300:
        return Reply(Outcome.DONE, document, code=code)
    message = str(document.get("message", ""))
    if code == 404:
        return Reply(Outcome.MISSING, message=message, code=code)
    if code == 409:
        exists = document.get("reason") == "AlreadyExists"
        return Reply(Outcome.EXISTS if exists else Outcome.CONFLICT, message=message, code=code)
    return Reply(Outcome.REFUSED, message=message, code=code)
