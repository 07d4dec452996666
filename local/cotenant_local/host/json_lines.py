"""JSON lines over a socket between the processes of a cluster: `up` and its supervisor, the supervisor and its nodes.

Either end sees the other's death as the end of the stream; that is what a lifeline is.
"""

import asyncio
import json
import socket
from typing import Any, Self


class JsonLines:
    """One end, for asyncio."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, connected: socket.socket) -> Self:
        return cls(*await asyncio.open_connection(sock=connected))

    def send(self, **message: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """None at the end of the stream."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        if not line.endswith(b"\n"):
            return None
        message: dict[str, Any] = json.loads(line)
        return message

    async def close(self) -> None:
        try:
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()
        except ConnectionError:
            return
