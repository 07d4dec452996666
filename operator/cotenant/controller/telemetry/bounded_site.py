"""Listening socket of aiohttp with a bounded number of connections, counted from accept to close.

aiohttp keeps a silent connection for an hour, and one in its TLS handshake for a minute. So anybody who reaches the
port could use up the process's file descriptors, and cut it off from the API server. Here, one connection too many
closes the oldest connection of the address that has the most. So an address never costs a connection to one that has
fewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Coroutine
from ssl import SSLContext
from typing import Final

from aiohttp import web

from cotenant.serving.sockets import listening

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
KEEP_S: Final = 15.0
"""A connection without a request is closed after so long."""
HANDSHAKE_S: Final = 5.0
ACCEPT_PAUSE_S: Final = 0.1
"""After the system has refused to hand a connection over."""


class BoundedSite(web.BaseSite):
    """Site to start on a prepared runner; `address` is host and port."""

    def __init__(self, runner: web.BaseRunner, address: tuple[str, int], *, tls: SSLContext | None = None) -> None:
        super().__init__(runner, ssl_context=tls)
        self._address = address
        self._tls = tls
        self._open: list[tuple[str, socket.socket]] = []
        """(remote address, connection), the oldest first."""
        self._parts: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._address[0]}:{self._address[1]}"

    async def start(self) -> None:
        await super().start()
        door = listening(self._address)
        door.setblocking(False)
        self._begin(self._accept(door))

    async def stop(self) -> None:
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
        await super().stop()

    def _begin(self, part: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(part)
        self._parts.add(task)
        task.add_done_callback(self._parts.discard)

    async def _accept(self, door: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with door:
            while True:
                try:
                    connection, remote = await loop.sock_accept(door)
                except OSError as error:
                    log.warning("a connection to %s was not taken: %s", self.name, error)
                    await asyncio.sleep(ACCEPT_PAUSE_S)
                    continue
                self._make_room(remote[0], connection)
                self._begin(self._serve(connection))
                await asyncio.sleep(0)  # those that are open come to their turn, however many wait

    def _make_room(self, remote: str, connection: socket.socket) -> None:
        self._open = [one for one in self._open if one[1].fileno() >= 0]
        self._open.append((remote, connection))
        if len(self._open) > CONNECTIONS_MAX:
            busiest = Counter(address for address, _ in self._open).most_common(1)[0][0]
            oldest = next(one for one in self._open if one[0] == busiest)
            self._open.remove(oldest)
            with contextlib.suppress(OSError):  # it may have ended by itself
                oldest[1].shutdown(socket.SHUT_RDWR)  # what reads from it closes it

    async def _serve(self, connection: socket.socket) -> None:
        server = self._runner.server
        if server is None:
            connection.close()
            return
        patience = {"ssl_handshake_timeout": HANDSHAKE_S} if self._tls else {}
        with contextlib.suppress(OSError):  # whoever hangs up, or does not speak TLS; ssl.SSLError is one
            await asyncio.get_running_loop().connect_accepted_socket(server, connection, ssl=self._tls, **patience)


async def serve_bounded(
    app: web.Application, address: tuple[str, int], *, tls: SSLContext | None = None
) -> web.AppRunner:
    """Serve until the returned runner is cleaned up."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=KEEP_S)
    await runner.setup()
    await BoundedSite(runner, address, tls=tls).start()
    return runner
