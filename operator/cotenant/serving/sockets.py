"""Listening sockets of servers that everybody reaches, by IPv4 and by IPv6."""

from __future__ import annotations

import socket
from typing import Final

EVERYWHERE: Final = frozenset({"", "::"})


def listening(address: tuple[str, int], *, backlog: int = 128) -> socket.socket:
    """A socket that listens at this host and port. The hosts `::` and "" are all addresses of both families, or those
    of IPv4 where the machine has no IPv6.
    """
    host, port = address
    if host in EVERYWHERE:
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=backlog)
        except (OSError, ValueError):
            host = "0.0.0.0"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=backlog)
