"""JSON lines between the processes of a cluster: one document a line, one peer class for sockets and pipes.

Either end sees the other's death as the end of the stream, so a connection serves as a lifeline. Code between a fork
and the user's program has its own writer (`reports`), because it imports nothing of this tree.
"""

import asyncio
import json
import socket
from typing import Any, Self


def encode(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def receive(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next document; None at the end of the stream. Raises ValueError for a line that is not JSON."""
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    if not line.endswith(b"\n"):
        return None
    message: dict[str, Any] = json.loads(line)
    return message


class JsonLines:
    """One end of a connection, for asyncio."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, connected: socket.socket) -> Self:
        return cls(*await asyncio.open_connection(sock=connected))

    def send(self, **message: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(**message))

    async def receive(self) -> dict[str, Any] | None:
        """The next document; None at the end of the stream."""
        return await receive(self._reader)

    async def close(self) -> None:
        try:
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()
        except ConnectionError:
            return
