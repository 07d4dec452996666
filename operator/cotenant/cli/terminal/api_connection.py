"""One HTTP connection to the API server, through its proxy, checked against the name in its certificate."""

from __future__ import annotations

import http.client
import ssl
from typing import Final
from urllib.parse import urlsplit

from cotenant.sdk.errors import CredentialsError
from cotenant.sdk.kubeconfig import ApiServer
from cotenant.sdk.proxies import SOCKS, authorization, through_socks

HTTPS_PORT: Final = 443
HTTP_PORT: Final = 80


class _NamedConnection(http.client.HTTPSConnection):
    """A connection that asks for the certificate of a name other than the server's address."""

    def __init__(self, host: str, port: int, *, timeout: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._name, self._tls = name, context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def opened(server: ApiServer, timeout_s: float) -> http.client.HTTPConnection:
    """An open connection for one request. Raises CredentialsError."""
    address, proxy = urlsplit(server.url), urlsplit(server.proxy)
    if proxy.scheme == "https":
        raise CredentialsError(f"the proxy {server.proxy} is spoken to over TLS; name one that is spoken to over http")
    is_tls, host = address.scheme == "https", address.hostname or ""
    try:
        port = address.port or (HTTPS_PORT if is_tls else HTTP_PORT)
    except ValueError as error:
        raise http.client.InvalidURL(str(error)) from error
    is_tunnel = bool(proxy.hostname) and proxy.scheme not in SOCKS
    first = (proxy.hostname or "", proxy.port or HTTP_PORT) if is_tunnel else (host, port)
    if is_tls:
        name, context = server.tls_server_name or host, server.tls()
        connection: http.client.HTTPConnection = _NamedConnection(*first, timeout=timeout_s, context=context, name=name)
    else:
        connection = http.client.HTTPConnection(*first, timeout=timeout_s)
    if proxy.scheme in SOCKS:
        through = through_socks(server.proxy, host, port, timeout_s)
        connection.sock = context.wrap_socket(through, server_hostname=name) if is_tls else through
    if is_tunnel:
        connection.set_tunnel(f"[{host}]" if ":" in host else host, port, headers=authorization(proxy))
    return connection
