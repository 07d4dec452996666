"""WebSocket clients: the channels of a command, and port-forward. Imported with the first one: aiohttp takes long.

A message begins with the number of its channel. The Python client and browsers use this; kubectl arrives as SPDY.
"""

import asyncio
import contextlib
import json
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import WSMsgType, web

from cotenant_local.runtime.containers.sandboxes import Sandbox
from cotenant_local.runtime.shim.zygote_client import ZygoteClient
from cotenant_local.runtime.streaming import port_forward
from cotenant_local.runtime.streaming.channels import STREAMS, Event
from cotenant_local.runtime.streaming.request_cache import StreamRequest

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io")
CLOSE_CHANNEL: Final = 255
Consume = Callable[[str], StreamRequest | None]
Command = Callable[[StreamRequest, "WebSocketChannels"], Awaitable[None]]


def protocol_factory(zygote: ZygoteClient, consume: Consume, command: Command) -> web.Server:
    """Makes the protocol of one connection; each serves one stream."""

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        stream = consume(request.path)
        if stream is None:
            return web.Response(status=404, text="no such request; addresses are good once, for a minute")
        socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0, heartbeat=30)
        await socket.prepare(request)
        if stream.kind == "portforward":
            await forward(zygote, stream.target, list(stream.asked.port), socket)
        else:
            channels = WebSocketChannels(socket, json_status=socket.ws_protocol in PROTOCOLS[:2])
            await channels.send(
                "stdout" if stream.asked.stdout else "error", b""
            )  # the client waits for a first message
            await command(stream, channels)
        return socket

    return web.Server(serve)


class WebSocketChannels:
    """One WebSocket, the channel's number before every message; `base64.` protocols carry text."""

    def __init__(self, socket: web.WebSocketResponse, *, json_status: bool) -> None:
        self.socket = socket
        self.json_status = json_status

    async def receive(self) -> Event | None:
        while True:
            message = await self.socket.receive()
            if message.type != WSMsgType.BINARY:
                if message.type == WSMsgType.TEXT:
                    continue
                return None
            data: bytes = message.data
            if not data:
                continue
            if data[0] == CLOSE_CHANNEL and data[1:2] == b"\x00":
                return "stdin", b""
            if data[0] < len(STREAMS) and len(data) > 1:
                return STREAMS[data[0]], data[1:]

    async def send(self, stream: str, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self.socket.send_bytes(bytes([STREAMS.index(stream)]) + data)

    async def finish(self, status: dict[str, Any]) -> None:
        plain = "" if status["status"] == "Success" else status["message"]
        message = json.dumps(status) if self.json_status else plain
        await self.send("error", message.encode())
        await self.socket.close()


async def forward(zygote: ZygoteClient, sandbox: Sandbox, wanted: list[int], client: web.WebSocketResponse) -> None:
    """Channels 2n (data) and 2n+1 (error) for the n-th port; each begins with its port, two bytes, little-endian."""
    for index, port in enumerate(wanted):
        for channel in (2 * index, 2 * index + 1):
            await client.send_bytes(bytes([channel]) + struct.pack("<H", port))
    writers: dict[int, asyncio.StreamWriter] = {}
    tasks = []
    for index, port in enumerate(wanted):
        try:
            reader, writers[2 * index] = await port_forward.connect(zygote, sandbox, port)
        except (OSError, port_forward.ForwardError) as problem:
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
    while chunk := await port_forward.read_some(reader):
        await client.send_bytes(bytes([channel]) + chunk)
    await client.close()
