"""Messages as lines of JSON over a stream socket, for asyncio. Stdlib only.

The launcher's unix socket and the connections of parameter servers use it. The shim writes the same lines from a
blocking thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Generic, TypeVar

from cotenant_worker.messaging.codec import Codec, MessageError

M = TypeVar("M")

LINE_LIMIT_BYTES = 1 << 20


class Channel(Generic[M]):
    """One end of a connection. A message that is not understood is refused, and the next one is read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, codec: Codec[M]) -> None:
        self._reader = reader
        self._writer = writer
        self._codec = codec
        self._refused = False

    @classmethod
    async def connect(cls, path: Path, codec: Codec[M], deadline_s: float) -> Channel[M]:
        """Connect once the other side listens. Raises TimeoutError after `deadline_s`."""
        async with asyncio.timeout(deadline_s):
            while True:
                try:
                    return cls(*await asyncio.open_unix_connection(str(path), limit=LINE_LIMIT_BYTES), codec)
                except (FileNotFoundError, ConnectionRefusedError):
                    await asyncio.sleep(0.02)

    def send(self, message: M) -> None:
        if not self._writer.is_closing():
            self._writer.write(self._codec.encode(message))

    async def drain(self) -> None:
        await self._writer.drain()

    async def __aiter__(self) -> AsyncIterator[M]:
        """Messages until the other side closes. An incomplete last line is dropped."""
        while True:
            try:
                line = await self._reader.readline()
            except (ConnectionError, ValueError):
                return
            if not line.endswith(b"\n"):
                return
            try:
                message = self._codec.decode(line)
            except MessageError as error:
                self._refuse(error)
            else:
                yield message

    def _refuse(self, error: MessageError) -> None:
        """Log one line for each connection, because its other side may send thousands."""
        if not self._refused:
            self._refused = True
            print(f"cotenant: a message was refused: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the pod's log

    def close(self) -> None:
        self._writer.close()
