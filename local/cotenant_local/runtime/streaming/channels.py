"""The five channels of a remote command, whatever carries them: input, output, errors, status, terminal size.

A session receives ("stdin", bytes), ("stdin", b"") at the end of input, ("resize", JSON); None when the client is gone.
"""

import asyncio
import contextlib
import json
from typing import Any, Final, Protocol

from cotenant_local.host import patience
from cotenant_local.runtime.streaming.spdy import SpdyConnection, SpdyStream

Event = tuple[str, bytes]
STREAMS = ("stdin", "stdout", "stderr", "error", "resize")
CREATION_DEADLINE_S: Final = 30.0
HANGUP_DEADLINE_S: Final = 2.0


class Channels(Protocol):
    """The client of a session."""

    async def receive(self) -> Event | None: ...

    async def send(self, stream: str, data: bytes) -> None: ...

    async def finish(self, status: dict[str, Any]) -> None: ...


class SpdyChannels:
    """One SPDY stream per channel, named by its `streamtype` header."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, json_status: bool) -> None:
        self.connection = SpdyConnection(reader, writer, self._opened)
        self.json_status = json_status
        self.streams: dict[str, SpdyStream] = {}
        self.arrived = asyncio.Event()
        self.events: asyncio.Queue[Event | None] = asyncio.Queue(16)
        self.tasks: list[asyncio.Task[None]] = []

    def _opened(self, stream: SpdyStream) -> None:
        kind = stream.headers.get("streamtype", "")
        if kind not in STREAMS or kind in self.streams:
            raise ValueError(kind)
        self.streams[kind] = stream
        if kind in {"stdin", "resize"}:
            self.tasks.append(asyncio.create_task(self._read(kind, stream)))
        self.arrived.set()

    async def _read(self, kind: str, stream: SpdyStream) -> None:
        while data := await stream.read():
            await self.events.put((kind, data))
        if kind == "stdin":
            await self.events.put((kind, b""))

    async def open(self, wanted: set[str]) -> None:
        """Waits until the client has made the streams that it announced."""
        self.tasks.append(asyncio.create_task(self._run()))
        async with asyncio.timeout(CREATION_DEADLINE_S):
            while not wanted <= self.streams.keys():
                self.arrived.clear()
                await self.arrived.wait()

    async def _run(self) -> None:
        await self.connection.run()
        await self.events.put(None)

    async def receive(self) -> Event | None:
        return await self.events.get()

    async def send(self, stream: str, data: bytes) -> None:
        if stream in self.streams:
            await self.streams[stream].write(data)

    async def finish(self, status: dict[str, Any]) -> None:
        """Ends every stream, then waits for the client to hang up: closing first could cut off data in transit."""
        plain = "" if status["status"] == "Success" else status["message"]
        message = json.dumps(status) if self.json_status else plain
        await self.send("error", message.encode())
        for stream in self.streams.values():
            await stream.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience.stretched(HANGUP_DEADLINE_S)):
                while await self.receive() is not None:
                    pass
        await self.stop()

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.connection.writer.close()
