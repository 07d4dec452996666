"""An HTTP client's connections to an application in a pod. Each is a stream of its own through the API server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from cotenant.controller.client.kube import UnreachableError
from cotenant.dashboard.reading.pod_streams import PodStream

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.tracing import Trace

CONNECTIONS: Final = 32
IDLE_S: Final = 20.0
PIECE_BYTES: Final = 64 * 1024


class PodConnector(aiohttp.BaseConnector):
    """A connector whose connections all lead to one port of one pod, whatever host an address names."""

    def __init__(self, connect: Callable[[], Awaitable[PodStream]]) -> None:
        """A connector. `connect` may raise DeniedError or UnreachableError."""
        super().__init__(limit=CONNECTIONS, keepalive_timeout=IDLE_S)
        self._connect_pod = connect
        self._carriers: set[asyncio.Task[None]] = set()

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        stream = await self._connect_pod()
        try:
            near, far = socket.socketpair()
            reader, writer = await asyncio.open_connection(sock=near)
            _, protocol = await asyncio.get_running_loop().create_connection(self._factory, sock=far)
        except BaseException:
            await stream.close()
            raise
        carrier = asyncio.create_task(_carry(stream, reader, writer))
        self._carriers.add(carrier)
        carrier.add_done_callback(self._carriers.discard)
        return protocol


async def _carry(stream: PodStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes in both directions until one end closes, then close the other."""
    try:
        await until_one_ends(_to_pod(reader, stream), _from_pod(stream, writer))
    finally:
        writer.close()
        await stream.close()


async def until_one_ends(*ways: Coroutine[Any, Any, None]) -> None:
    """Run all of them until one ends, and cancel the others."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _to_pod(reader: asyncio.StreamReader, stream: PodStream) -> None:
    with suppress(UnreachableError, ConnectionError):
        while piece := await reader.read(PIECE_BYTES):
            await stream.write(piece)


async def _from_pod(stream: PodStream, writer: asyncio.StreamWriter) -> None:
    with suppress(UnreachableError, ConnectionError):
        while piece := await stream.read():
            writer.write(piece)
            await writer.drain()
