"""The proxy for an API server, from its kubeconfig or from the environment, as kubectl reads them."""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from cotenant.sdk.errors import CredentialsError

SOCKS: Final = ("socks5", "socks5h")
SOCKS_PORT: Final = 1080
SCHEMES: Final = ("http", "https", *SOCKS)


def proxy_of(url: str, cluster: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> str:
    """Address of the proxy, or "". Raises CredentialsError for a kind of proxy that is not supported.

    `proxy-url` of the cluster applies to every address. The environment's proxy does not apply to addresses in
    `NO_PROXY`, nor to this machine.
    """
    named, server = str(cluster.get("proxy-url") or ""), urlsplit(url)
    if not named and not _left_out(server, _variable(environment, "NO_PROXY")):
        named = _variable(environment, f"{server.scheme.upper()}_PROXY")
        named = f"http://{named}" if named and "://" not in named else named
    if named and urlsplit(named).scheme not in SCHEMES:
        raise CredentialsError(
            f"the proxy {named} is neither http, https nor socks5; name such a proxy in the kubeconfig's proxy-url, or"
            " forward a local port to the API server and name that as its server"
        )
    return named


def authorization(proxy: SplitResult) -> dict[str, str]:
    """Header that authenticates the caller to a proxy; none if its address has no user."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair).decode()}


def through_socks(proxy: str, host: str, port: int, timeout_s: float) -> socket.socket:
    """An open connection through a SOCKS5 proxy, which looks the server's name up. Raises OSError."""
    from python_socks import ProxyError, ProxyType
    from python_socks.sync import Proxy

    address = urlsplit(proxy)
    user, password = unquote(address.username or ""), unquote(address.password or "")
    dialer = Proxy(ProxyType.SOCKS5, address.hostname or "", address.port or SOCKS_PORT, user, password)
    try:
        return dialer.connect(host, port, timeout=timeout_s)
    except ProxyError as error:
        raise OSError(f"the proxy {address.hostname} does not connect to {host}:{port}: {error}") from error


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def _left_out(server: SplitResult, names: str) -> bool:
    host = (server.hostname or "").lower()
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for raw in names.lower().split(","):
        name, port = raw.strip(), None
        if name.count(":") == 1:
            name, _, port = name.partition(":")
        if name == "*" or (name and _covers(name, host) and port in {None, str(server.port or 443)}):
            return True
    return False


def _covers(name: str, host: str) -> bool:
    """True if an entry of NO_PROXY (a network, an address or a domain) includes this host."""
    try:
        return ip_address(host) in ip_network(name, strict=False)
    except ValueError:
        domain = name.removeprefix("*").removeprefix(".")
        return host.endswith("." + domain) or (host == domain and not name.startswith((".", "*")))
