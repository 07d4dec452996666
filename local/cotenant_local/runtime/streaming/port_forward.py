"""Port-forward: connects to a port inside a pod's network namespace and moves bytes, over SPDY.

Nothing runs in the pod for it: a child of the zygote enters the namespace, connects, and hands the socket over.
"""

import asyncio
import contextlib
import socket

from cotenant_local.runtime.containers.sandboxes import Sandbox
from cotenant_local.runtime.shim.zygote_client import ZygoteClient, receive_descriptor
from cotenant_local.runtime.streaming.spdy import SpdyConnection, SpdyStream

CHUNK = 1 << 15


class ForwardError(Exception):
    """Nothing listens there; the message names the port."""


async def connect(
    zygote: ZygoteClient, sandbox: Sandbox, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to 127.0.0.1:`port` as the pod sees it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours:
        request = {"task": "netns", "namespace": f"/proc/{sandbox.pid}/ns/net", "port": port}
        with theirs:
            zygote.send(request, [theirs.fileno()])
        message, fd = await receive_descriptor(ours)
    if fd < 0:
        raise ForwardError(message.decode() or f"port {port}: the pod's network is gone")
    return await asyncio.open_connection(sock=socket.socket(fileno=fd))


class SpdyPortForward:
    """Pairs of streams (data, error) by request, each pair one connection to the pod."""

    def __init__(self, zygote: ZygoteClient, sandbox: Sandbox) -> None:
        self.zygote = zygote
        self.sandbox = sandbox
        self.waiting: dict[str, dict[str, SpdyStream]] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await SpdyConnection(reader, writer, self._opened).run()
        for task in self.tasks:
            task.cancel()
        writer.close()

    def _opened(self, stream: SpdyStream) -> None:
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

    async def _forward(self, data: SpdyStream, error: SpdyStream, port: int) -> None:
        try:
            reader, writer = await connect(self.zygote, self.sandbox, port)
        except (OSError, ForwardError) as problem:
            await error.write(f"error forwarding port {port} to pod {self.sandbox.id}: {problem}".encode())
            await error.close()
            await data.close()
            return
        try:
            upward = asyncio.create_task(_to_pod(data, writer))
            while chunk := await read_some(reader):
                await data.write(chunk)
            upward.cancel()
        finally:
            writer.close()
            await data.close()
            await error.close()
            data.connection.forget(data, error)


async def _to_pod(stream: SpdyStream, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await stream.read():
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


async def read_some(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(CHUNK)
    except ConnectionError:
        return b""
