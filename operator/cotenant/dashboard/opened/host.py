"""Origins of sessions: the host name of each, and the requests that a page of another origin may not make. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LABEL: Final = re.compile(r"[a-z][-a-z0-9]{0,62}")
DIGEST_CHARS: Final = 16
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
FROM_HERE: Final = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` for requests of this origin's pages, and for addresses that a person types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsHost:
    """The parent domain of the sessions' host names: `notebook-0123456789abcdef.sessions.example.com`."""

    name: str
    """The host as browsers write it: with the port, unless it is the default port."""
    is_secure: bool
    """True if it is reached over TLS."""

    def origin(self, label: str) -> str:
        """The origin of one session; with `*`, the pattern of all."""
        return f"{'https' if self.is_secure else 'http'}://{label}.{self.name}"

    def label_in(self, host: str) -> str:
        """The session's part of a request's `Host`; empty if the request is for no session."""
        label, _, rest = host.lower().partition(".")
        return label if rest == self.name.lower() and LABEL.fullmatch(label) else ""


def label_of(namespace: str, name: str, uid: str) -> str:
    """The label of one session.

    A session that is created again under the same name gets another label. So it cannot use what its predecessor left
    in a browser (storage, service workers).
    """
    digest = hashlib.sha256(f"{namespace}/{name}/{uid}".encode()).hexdigest()
    return f"{name}-{digest[:DIGEST_CHARS]}"


def is_socket(headers: Mapping[str, str]) -> bool:
    """True if the request opens a WebSocket."""
    return headers.get("Upgrade", "").lower() == "websocket"


def comes_from_elsewhere(method: str, headers: Mapping[str, str], origin: str) -> bool:
    """True if a page of another origin sent this request, except for a link to a page.

    Other sessions count as the same site, so browsers send `SameSite` cookies with their requests. Browsers name the
    origin of every WebSocket and of every request that may change something.
    """
    said = headers.get("Origin")
    if said is None and (is_socket(headers) or method not in SAFE_METHODS):
        return True
    if said not in (None, origin):
        return True
    is_link = method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate"
    is_page = is_link and headers.get("Sec-Fetch-Dest") == "document"
    return headers.get("Sec-Fetch-Site", "none") not in FROM_HERE and not is_page
