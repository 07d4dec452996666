"""Headers between a browser and an application, filtered in both directions. Pure.

The application receives nothing with which it could act for the person: not the dashboard's cookie, not what a proxy
adds, not a cookie of another host of the domain. The browser receives nothing that affects other host names.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding"}
    | {"upgrade", "proxy-connection"}
)
SET_HERE: Final = frozenset({"host", "authorization", "cookie", "origin", "referer", "forwarded", "x-real-ip"})
"""Request headers that this server writes itself or leaves out."""
OF_PROXIES: Final = (
    "x-forwarded-", "x-auth-request-", "x-remote-", "impersonate-", "x-amzn-oidc-", "x-goog-", "cf-", "sec-websocket-",
)  # fmt: skip
"""Prefixes of headers that proxies add about the person, and of the headers of the WebSocket handshake."""
WIDER_THAN_A_HOST: Final = frozenset({"set-cookie", "clear-site-data", "strict-transport-security", "alt-svc"})
"""Response headers that would affect other hosts of the domain. Cookies are passed on one by one."""
COOKIES_MAX: Final = 64
COOKIE_CHARS_MAX: Final = 4096
FRAMES: Final = "frame-ancestors 'self'"


class OwnCookies:
    """The cookies that an application has set. It gets back these and no others.

    A browser also sends cookies that other hosts have set for the whole domain, such as the login of a proxy.
    """

    def __init__(self, reserved: str) -> None:
        self._reserved = reserved
        self._set: OrderedDict[str, None] = OrderedDict()

    def note(self, line: str) -> str:
        """The `Set-Cookie` line for the browser, limited to this host. Empty if the browser gets none."""
        pair, *attributes = line.split(";")
        name, found, value = pair.partition("=")
        if not found or name.strip() == self._reserved or len(pair) > COOKIE_CHARS_MAX:
            return ""
        self._set[f"{name.strip()}={value.strip()}"] = None
        while len(self._set) > COOKIES_MAX:
            self._set.popitem(last=False)
        kept = [one for one in attributes if one.partition("=")[0].strip().lower() != "domain"]
        return ";".join([pair, *kept])

    def among(self, header: str) -> list[str]:
        """The cookies in a browser's `Cookie` header that the application has set."""
        return [pair for one in header.split(";") if (pair := one.strip()) in self._set]


def to_application(
    headers: CIMultiDictProxy[str], *, address: str, credentials: Mapping[str, str], cookies: OwnCookies, hidden: str
) -> CIMultiDict[str]:
    """Headers of a request for the application.

    `address`: the application's own origin, from which the request seems to come. `credentials`: headers by which it
    lets a person in. `hidden`: the header in which a trusted proxy passes tokens.
    """
    named = {one.strip().lower() for one in headers.get("Connection", "").split(",")}
    left_out = HOP_BY_HOP | SET_HERE | named | {hidden.lower()}
    kept = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in left_out and not name.lower().startswith(OF_PROXIES)
    )
    kept["Host"] = address.partition("://")[2]
    if "Origin" in headers:
        kept["Origin"] = address
    own = cookies.among("; ".join(headers.getall("Cookie", [])))
    own += [credentials["Cookie"]] if "Cookie" in credentials else []
    kept.update({name: value for name, value in credentials.items() if name != "Cookie"})
    if own:
        kept["Cookie"] = "; ".join(own)
    return kept


def to_browser(headers: CIMultiDictProxy[str], *, address: str, cookies: OwnCookies) -> CIMultiDict[str]:
    """Headers of a response for the browser."""
    left_out = HOP_BY_HOP | WIDER_THAN_A_HOST
    kept = CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in left_out)
    for line in headers.getall("Set-Cookie", []):
        if passed_on := cookies.note(line):
            kept.add("Set-Cookie", passed_on)
    if kept.get("Location", "").startswith(f"{address}/"):
        kept["Location"] = kept["Location"][len(address) :]
    kept.add("Content-Security-Policy", FRAMES)
    kept["Cross-Origin-Resource-Policy"] = "same-origin"
    return kept
