"""The HTTP server that the kubelet proxies streaming requests to: one-time addresses, SPDY and WebSocket upgrades.

The head of a request is read here. SPDY takes the connection over; a WebSocket is handed to aiohttp with what was read.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from cotenant_local.runtime.shim.zygote_client import ZygoteClient
from cotenant_local.runtime.streaming import port_forward, remote_command
from cotenant_local.runtime.streaming.channels import Channels, SpdyChannels
from cotenant_local.runtime.streaming.request_cache import RequestCache, StreamRequest

log = logging.getLogger(__name__)
HEAD_BYTES = 1 << 16
COMMAND_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
Head = tuple[str, dict[str, str]]
FORWARD_PROTOCOL: Final = "portforward.k8s.io"


class StreamServer:
    """Serves each request once."""

    def __init__(self, zygote: ZygoteClient) -> None:
        self.zygote = zygote
        self.requests = RequestCache()
        self.base = ""
        self.server: asyncio.Server | None = None
        self.sessions: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Serves on a free port: the kubelet of the same sandbox connects."""
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: UpgradeProtocol(self._websocket, self._begin), "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()[:2]
        self.base = f"http://{host}:{port}"

    async def stop(self) -> None:
        if self.server:
            self.server.close()

    def address(self, kind: str, target: Any, asked: Any) -> str:
        """The address of the request for a client, good for a minute."""
        return self.base + self.requests.insert(kind, target, asked)

    def _websocket(self) -> asyncio.Protocol:
        from cotenant_local.runtime.streaming import websockets

        return websockets.protocol_factory(self.zygote, self.requests.consume, self._command)()

    def _begin(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(head, reader, writer))
        self.sessions.add(task)
        task.add_done_callback(self.sessions.discard)

    async def _serve(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path, headers = head
        try:
            request = self.requests.consume(path)
            if request is None:
                await _refuse(writer, "404 Not Found", "no such request; addresses are good once, for a minute")
            elif headers.get("upgrade", "").lower() != "spdy/3.1":
                await _refuse(writer, "400 Bad Request", "upgrade to SPDY/3.1 or websocket required")
            else:
                await self._spdy(request, headers, reader, writer)
        except (ConnectionError, TimeoutError):
            writer.close()
        except Exception:  # one session must not end the others
            log.exception("a streaming session failed")
            writer.close()

    async def _spdy(
        self,
        request: StreamRequest,
        headers: dict[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        offered = [name.strip() for name in headers.get("x-stream-protocol-version", "").split(",") if name.strip()]
        known = (FORWARD_PROTOCOL,) if request.kind == "portforward" else COMMAND_PROTOCOLS
        protocol = next((name for name in known if name in offered), "" if not offered else None)
        if protocol is None:
            await _refuse(writer, "403 Forbidden", f"unknown protocols {offered}; known are {list(known)}")
            return
        lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
        if protocol:
            lines.append(f"X-Stream-Protocol-Version: {protocol}")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        if request.kind == "portforward":
            await port_forward.SpdyPortForward(self.zygote, request.target).run(reader, writer)
            return
        channels = SpdyChannels(reader, writer, json_status=protocol == COMMAND_PROTOCOLS[0])
        try:
            await channels.open(_wanted(request.asked, resizes=protocol in COMMAND_PROTOCOLS[:2]))
            await self._command(request, channels)
        finally:
            await channels.stop()

    async def _command(self, request: StreamRequest, channels: Channels) -> None:
        asked = request.asked
        if request.kind == "attach":
            await remote_command.run_attach(channels, request.target, stdin=asked.stdin)
            return
        command = list(asked.cmd)
        await remote_command.run_exec(channels, self.zygote, request.target, command, stdin=asked.stdin, tty=asked.tty)


def _wanted(asked: Any, *, resizes: bool) -> set[str]:
    wanted = {"error"} | {name for name in ("stdin", "stdout", "stderr") if getattr(asked, name)}
    return wanted | ({"resize"} if asked.tty and resizes else set())


class UpgradeProtocol(asyncio.Protocol):
    """Reads the head of a request, then gives the connection to the protocol that it asks for."""

    def __init__(
        self,
        websockets: Callable[[], asyncio.Protocol],
        serve: Callable[[Head, asyncio.StreamReader, asyncio.StreamWriter], None],
    ) -> None:
        self.sessions: set[asyncio.Task[None]] = set()
        self.websockets = websockets
        self.serve = serve
        self.buffer = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end and len(self.buffer) < HEAD_BYTES:
            return
        try:
            parsed = parse_head(head)
        except ValueError:
            self.transport.close()
            return
        if parsed[1].get("upgrade", "").lower() == "websocket":
            protocol = self.websockets()
            self.transport.set_protocol(protocol)
            protocol.connection_made(self.transport)
            protocol.data_received(self.buffer)
            return
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 20)
        streams = asyncio.StreamReaderProtocol(reader)
        self.transport.set_protocol(streams)
        streams.connection_made(self.transport)
        reader.feed_data(rest)
        writer = asyncio.StreamWriter(self.transport, streams, reader, loop)
        self.serve(parsed, reader, writer)


def parse_head(head: bytes) -> Head:
    """Path and headers (lower case, repeated ones joined) of a request; raises ValueError."""
    request, *lines = head.decode("latin-1").split("\r\n")
    _, target, _ = request.split(" ")
    headers: dict[str, str] = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        key = name.strip().lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return target.partition("?")[0], headers


async def _refuse(writer: asyncio.StreamWriter, status: str, message: str) -> None:
    body = message.encode() + b"\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    writer.close()
