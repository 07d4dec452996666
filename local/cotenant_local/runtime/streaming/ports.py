"""Port-forward: connects to a port inside a pod's network namespace and moves bytes, over SPDY or WebSocket.

Nothing runs in the pod for it: a child of the zygote enters the namespace, connects, and hands the socket over.
"""

import asyncio
import contextlib
import socket
import struct

from aiohttp import WSMsgType, web

from cotenant_local.runtime.launcher import Launcher, receive_descriptor
from cotenant_local.runtime.sandboxes import Sandbox
from cotenant_local.runtime.streaming.spdy import Connection, Stream

CHUNK = 1 << 15


class ForwardError(Exception):
    """Nothing listens there; the message names the port."""


async def connect(launcher: Launcher, sandbox: Sandbox, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to 127.0.0.1:`port` as the pod sees it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours:
        request = {"task": "netns", "namespace": f"/proc/{sandbox.pid}/ns/net", "port": port}
        with theirs:
            launcher.send(request, [theirs.fileno()])
        said, fd = await receive_descriptor(ours)
    if fd < 0:
        raise ForwardError(said.decode() or f"port {port}: the pod's network is gone")
    return await asyncio.open_connection(sock=socket.socket(fileno=fd))


class SpdyForward:
    """Pairs of streams (data, error) by request, each pair one connection to the pod."""

    def __init__(self, launcher: Launcher, sandbox: Sandbox) -> None:
        self.launcher = launcher
        self.sandbox = sandbox
        self.waiting: dict[str, dict[str, Stream]] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(reader, writer, self._opened).run()
        for task in self.tasks:
            task.cancel()
        writer.close()

    def _opened(self, stream: Stream) -> None:
        kind, port = stream.headers.get("streamtype", ""), stream.headers.get("port", "")
        if kind not in {"data", "error"} or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"streamtype {kind!r}, port {port!r}")
        # Clients that number no requests open the error stream first, then data with the next odd number.
        implied = str(stream.number if kind == "error" else stream.number - 2)
        request = stream.headers.get("requestid", implied)
        pair = self.waiting.setdefault(request, {})
        if kind in pair:
            raise ValueError(f"a second {kind} stream for request {request}")
        pair[kind] = stream
        if len(pair) == 2:
            del self.waiting[request]
            task = asyncio.create_task(self._forward(pair["data"], pair["error"], int(port)))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _forward(self, data: Stream, error: Stream, port: int) -> None:
        try:
            reader, writer = await connect(self.launcher, self.sandbox, port)
        except (OSError, ForwardError) as problem:
            await error.write(f"error forwarding port {port} to pod {self.sandbox.id}: {problem}".encode())
            await error.close()
            await data.close()
            return
        try:
            upward = asyncio.create_task(_to_pod(data, writer))
            while chunk := await _some(reader):
                await data.write(chunk)
            upward.cancel()
        finally:
            writer.close()
            await data.close()
            await error.close()
            data.connection.forget(data, error)


async def _to_pod(stream: Stream, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await stream.read():
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


async def _some(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(CHUNK)
    except ConnectionError:
        return b""


async def forward_websocket(
    launcher: Launcher, sandbox: Sandbox, ports: list[int], client: web.WebSocketResponse
) -> None:
    """Channels 2n (data) and 2n+1 (error) for the n-th port; each first says its port, two bytes, little-endian."""
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await client.send_bytes(bytes([channel]) + struct.pack("<H", port))
    writers: dict[int, asyncio.StreamWriter] = {}
    tasks = []
    for index, port in enumerate(ports):
        try:
            reader, writers[2 * index] = await connect(launcher, sandbox, port)
        except (OSError, ForwardError) as problem:
            await client.send_bytes(bytes([2 * index + 1]) + f"error forwarding port {port}: {problem}".encode())
            continue
        tasks.append(asyncio.create_task(_from_pod(reader, client, 2 * index)))
    try:
        async for message in client:
            if message.type == WSMsgType.BINARY and message.data and message.data[0] in writers:
                writer = writers[message.data[0]]
                writer.write(message.data[1:])
                await writer.drain()
    except ConnectionError:
        return
    finally:
        for task in tasks:
            task.cancel()
        for writer in writers.values():
            writer.close()


async def _from_pod(reader: asyncio.StreamReader, client: web.WebSocketResponse, channel: int) -> None:
    while chunk := await _some(reader):
        await client.send_bytes(bytes([channel]) + chunk)
    await client.close()
