"""Lines of JSON over the pod's unix socket: how ranks, actor and driver talk with their launcher. Stdlib only.

Two shapes: `Channel` for asyncio (launcher, actor, driver), `Line` for a rank's blocking side thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeAlias

from cotenant_worker.host import layout

Message: TypeAlias = dict[str, Any]

_LIMIT = 1 << 20


def encode(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Channel:
    """One end of a connection, for asyncio."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, path: Path, deadline_s: float) -> Channel:
        """Connect, waiting for the launcher to listen; TimeoutError after `deadline_s`."""
        async with asyncio.timeout(deadline_s):
            while True:
                try:
                    return cls(*await asyncio.open_unix_connection(str(path), limit=_LIMIT))
                except (FileNotFoundError, ConnectionRefusedError):
                    await asyncio.sleep(0.02)

    def send(self, message: Message) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(message))

    async def drain(self) -> None:
        await self._writer.drain()

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages until the other end goes; a torn last line is dropped."""
        while True:
            try:
                line = await self._reader.readline()
            except (ConnectionError, ValueError):
                return
            if not line.endswith(b"\n"):
                return
            yield json.loads(line)

    def close(self) -> None:
        self._writer.close()


class BlockingChannel:
    """A rank's end: blocking, with a short timeout, and silent once the launcher has gone."""

    def __init__(self, path: Path, timeout_s: float = 5.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        self._socket.connect(str(path))

    def send(self, message: Message) -> bool:
        """True when the message left; the launcher's absence never breaks the program."""
        try:
            self._socket.sendall(encode(message))
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


def mark_phase(what: str) -> None:
    """For the launcher's table of start-up phases, from a process of the pod that says nothing else to it."""
    with contextlib.suppress(OSError):
        line = BlockingChannel(layout.socket_path())
        line.send({"op": "hello", "role": "node"})
        line.send({"op": "mark", "what": what})
        line.close()
