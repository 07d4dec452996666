"""One-time addresses: what the kubelet announced over gRPC waits here until somebody comes with its token."""

import dataclasses
import secrets
import time
from typing import Any

SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Ticket:
    """What to do (`exec`, `attach`, `portforward`), with which container or sandbox, and the kubelet's request."""

    kind: str
    target: Any
    asked: Any
    expires: float


class Tickets:
    """All that wait, by token."""

    def __init__(self) -> None:
        self.waiting: dict[str, Ticket] = {}

    def issue(self, kind: str, target: Any, asked: Any) -> str:
        """The path to go to, within a minute."""
        now = time.monotonic()
        self.waiting = {token: ticket for token, ticket in self.waiting.items() if ticket.expires > now}
        token = secrets.token_urlsafe(16)
        self.waiting[token] = Ticket(kind, target, asked, now + SECONDS)
        return f"/{kind}/{token}"

    def redeem(self, path: str) -> Ticket | None:
        """Once only."""
        kind, _, token = path.strip("/").partition("/")
        ticket = self.waiting.pop(token, None)
        return ticket if ticket and ticket.kind == kind and ticket.expires > time.monotonic() else None
