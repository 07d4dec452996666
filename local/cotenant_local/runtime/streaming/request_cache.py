"""One-time addresses: requests that came over gRPC wait here until a client comes with their token."""

import secrets
import time
from dataclasses import dataclass
from typing import Any, Final

TTL_S: Final = 60.0


@dataclass(frozen=True)
class StreamRequest:
    """The kind (`exec`, `attach`, `portforward`), the container or sandbox, and the kubelet's request."""

    kind: str
    target: Any
    asked: Any
    expires: float


class RequestCache:
    """Requests that wait, by token."""

    def __init__(self) -> None:
        self.waiting: dict[str, StreamRequest] = {}

    def insert(self, kind: str, target: Any, asked: Any) -> str:
        """The path to go to, within a minute."""
        now = time.monotonic()
        self.waiting = {token: request for token, request in self.waiting.items() if request.expires > now}
        token = secrets.token_urlsafe(16)
        self.waiting[token] = StreamRequest(kind, target, asked, now + TTL_S)
        return f"/{kind}/{token}"

    def consume(self, path: str) -> StreamRequest | None:
        """The request of that path, once; None when there is none or it has expired."""
        kind, _, token = path.strip("/").partition("/")
        request = self.waiting.pop(token, None)
        return request if request and request.kind == kind and request.expires > time.monotonic() else None
