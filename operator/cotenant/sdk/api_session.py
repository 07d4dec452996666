"""Requests, watches and logs of the API server, as the caller of a kubeconfig or the ServiceAccount of a pod."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from cotenant.sdk.errors import (
    AccessDeniedError,
    ClusterUnreachableError,
    CotenantError,
    MissingObjectError,
    RequestRefusedError,
)
from cotenant.sdk.kubeconfig import ApiServer
from cotenant.sdk.proxies import SOCKS, through_socks

TIMEOUT_S: Final = 30.0
CONNECT_S: Final = 5.0
LINE_BYTES: Final = 4 * 1024 * 1024
"""Size of one event of a watch. An object of the API server has at most about 1.5 MiB."""
_ERRORS: Final[dict[int, type[CotenantError]]] = {
    401: AccessDeniedError,
    403: AccessDeniedError,
    404: MissingObjectError,
    429: ClusterUnreachableError,
    503: ClusterUnreachableError,
    504: ClusterUnreachableError,
}
Query = Mapping[str, str]


class WayTo(TypedDict):
    proxy: str | None
    server_hostname: str | None


@dataclass(slots=True)
class ApiSession:
    """One connection pool. The first request opens it, in its event loop."""

    server: ApiServer
    timeout_s: float = TIMEOUT_S
    connections: int = 100
    _session: aiohttp.ClientSession | None = None
    _retired: list[aiohttp.ClientSession] = field(default_factory=list)

    async def close(self) -> None:
        if self._session is not None:
            self._retired.append(self._session)
            self._session = None
        while self._retired:
            await self._retired.pop().close()

    async def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Query | None = None
    ) -> dict[str, Any]:
        """The answer's document. Raises the CotenantError for its status code."""
        return json.loads(await self.content(method, path, body, query) or b"{}")  # type: ignore[no-any-return]

    async def content(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Query | None = None
    ) -> bytes:
        """The answer as it came. Raises the CotenantError for its status code."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        deadline = aiohttp.ClientTimeout(total=self.timeout_s, sock_connect=CONNECT_S)
        data = None if body is None else json.dumps(body)
        async with self._opened(method, path, query, deadline, data=data, kind=kind) as response:
            return await response.read()

    async def chunks(self, path: str, query: Query | None = None, quiet_s: float | None = None) -> AsyncIterator[bytes]:
        """A continuing answer as it comes. It breaks if nothing comes for `quiet_s`."""
        deadline = aiohttp.ClientTimeout(total=None, sock_connect=self.timeout_s, sock_read=quiet_s)
        async with self._opened("GET", path, query, deadline) as response:
            async for chunk in response.content.iter_any():
                yield chunk

    async def lines(self, path: str, query: Query | None = None) -> AsyncIterator[bytes]:
        """Lines of a continuing answer as they come, without line ends."""
        rest = b""
        async for chunk in self.chunks(path, query):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line
            if len(rest) > LINE_BYTES:
                raise ClusterUnreachableError(f"{path}: a line of more than {LINE_BYTES} bytes")
        if rest:
            yield rest

    async def watch(self, path: str, query: Query) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """(ADDED, MODIFIED or DELETED, the object), until the server ends the watch."""
        async for line in self.lines(path, {**query, "watch": "1"}):
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            if event["type"] != "BOOKMARK":
                yield event["type"], event["object"]

    @asynccontextmanager
    async def _opened(
        self,
        method: str,
        path: str,
        query: Query | None,
        deadline: aiohttp.ClientTimeout,
        *,
        data: str | None = None,
        kind: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that is no refusal."""
        headers = {"Accept": "application/json, */*", "Content-Type": kind}
        for is_first in (True, False):
            headers |= await asyncio.to_thread(self.server.authorization)  # may run a program of the person's own
            try:
                async with self._pool().request(
                    method,
                    self.server.url.rstrip("/") + path,
                    params=dict(query or {}),
                    data=data,
                    headers=headers,
                    timeout=deadline,
                    allow_redirects=False,
                    **way_to(self.server),
                ) as response:
                    if response.status == 401 and is_first and self._renewed():
                        continue
                    if response.status >= 300:
                        raise _refusal(response.status, await response.read())
                    yield response
                    return
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                reason = error or type(error).__name__
                raise ClusterUnreachableError(f"the API server is not reached: {reason}") from error

    def _renewed(self) -> bool:
        """True if a plugin is to be asked for other credentials than those that were refused."""
        if self.server.has_certificate_of_plugin and self._session is not None:
            self._retired.append(self._session)  # its certificate stays; watches may still read from it
            self._session = None
        return self.server.renew()

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            tls = self.server.tls() if self.server.is_https else True
            self._session = aiohttp.ClientSession(
                connector=connector(self.server.proxy, tls, self.connections),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=1 << 18,
            )
        return self._session


def way_to(server: ApiServer) -> WayTo:
    """Arguments of a request: the proxy on the way, and the name that the server's certificate is for."""
    is_http = not _is_socks(server.proxy)
    return {"proxy": (server.proxy or None) if is_http else None, "server_hostname": server.tls_server_name}


def connector(proxy: str, tls: ssl.SSLContext | bool, limit: int) -> aiohttp.TCPConnector:
    """A connection pool for requests with `way_to`. A SOCKS5 proxy is the pool's, and any other is the request's."""
    return _SocksConnector(proxy, tls, limit) if _is_socks(proxy) else aiohttp.TCPConnector(ssl=tls, limit=limit)


def _is_socks(proxy: str) -> bool:
    return proxy.partition("://")[0] in SOCKS


class _Unresolved(AbstractResolver):
    """Leaves names to the proxy: this machine may not know them."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host=host, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        """It holds nothing."""


class _SocksConnector(aiohttp.TCPConnector):
    """Connections through a SOCKS5 proxy. aiohttp has no public place for them: aiohttp-socks takes this one too, and
    checks certificates against the address alone, not against `tls-server-name`.
    """

    def __init__(self, proxy: str, tls: ssl.SSLContext | bool, limit: int) -> None:
        super().__init__(ssl=tls, limit=limit, resolver=_Unresolved())
        self._proxy = proxy

    async def _wrap_create_connection(
        self, *args: Any, addr_infos: Any, timeout: aiohttp.ClientTimeout, **named: Any
    ) -> Any:
        host, port = addr_infos[0][4][:2]
        limit_s = timeout.sock_connect or TIMEOUT_S
        tls: dict[str, Any] = {name: named.get(name) for name in ("ssl", "server_hostname")}
        try:
            sock = await asyncio.to_thread(through_socks, self._proxy, host, port, limit_s)
            sock.setblocking(False)
            return await self._loop.create_connection(*args, sock=sock, **tls)
        except OSError as error:
            raise aiohttp.ClientConnectionError(str(error)) from error


def _refusal(code: int, text: bytes) -> CotenantError:
    error = _ERRORS.get(code, RequestRefusedError)(_message(code, text))
    error.code = code
    return error


def _message(code: int, text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:300].decode(errors="replace").strip() or f"the API server answered {code}"
