"""Streams into pods through the API server, over WebSockets: the output of a command, one connection to a port.

A kubelet connects to 127.0.0.1 of the pod, and the API server checks the caller's right to `pods/exec` and
`pods/portforward`. So a program that listens on loopback alone can be reached, and the pod needs no network access.
Each message starts with the number of its channel (`v4.channel.k8s.io`, which every API server and container runtime
supports).
"""

from __future__ import annotations

from typing import Final

import aiohttp
import orjson

from cotenant.controller.client.kube import UnreachableError

PROTOCOL: Final = "v4.channel.k8s.io"
PIECE_BYTES: Final = 1024 * 1024
"""Largest message. Kubelets send 32 KiB at a time."""
OUTPUT_BYTES: Final = 64 * 1024
STDOUT, STDERR, STATUS = 1, 2, 3
"""Channels of a command."""
DATA, ERROR = 0, 1
"""Channels of a forwarded port."""
PORT_BYTES: Final = 2
"""Each channel of a forwarded port starts with the port number, which has this many bytes."""
ERROR_CHARS: Final = 500


class PodStream:
    """One connection to a port of a pod, over the WebSocket of a port-forward."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._begun: set[int] = set()

    async def read(self) -> bytes:
        """The next bytes; empty at the end. Raises UnreachableError if the port accepts no connection."""
        while True:
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                return b""
            channel, piece = message.data[:1], message.data[1:]
            if channel and channel[0] not in self._begun:
                self._begun.add(channel[0])
                piece = piece[PORT_BYTES:]
            if piece and channel[0] == ERROR:
                raise UnreachableError(piece[:ERROR_CHARS].decode(errors="replace"))
            if piece and channel[0] == DATA:
                return bytes(piece)

    async def write(self, piece: bytes) -> None:
        """Send these bytes. Raises UnreachableError if the connection is gone."""
        try:
            await self._socket.send_bytes(bytes([DATA]) + piece)
        except (aiohttp.ClientError, ConnectionError) as error:
            raise UnreachableError("the connection to the pod is gone") from error

    async def close(self) -> None:
        await self._socket.close()


async def output(socket: aiohttp.ClientWebSocketResponse) -> str:
    """What a command prints, at most OUTPUT_BYTES. If it fails, raises UnreachableError with its output."""
    said: dict[int, bytes] = {STDOUT: b"", STDERR: b"", STATUS: b""}
    async for message in socket:
        if message.type is aiohttp.WSMsgType.BINARY and message.data and message.data[0] in said:
            said[message.data[0]] += message.data[1:]
        if sum(map(len, said.values())) > OUTPUT_BYTES:
            break
    await socket.close()
    if not _succeeded(said[STATUS]):
        raise UnreachableError(said[STDERR][:ERROR_CHARS].decode(errors="replace").strip() or "the command failed")
    return said[STDOUT].decode(errors="replace")


def _succeeded(status: bytes) -> bool:
    try:
        return bool(orjson.loads(status).get("status") == "Success")
    except (orjson.JSONDecodeError, AttributeError):
        return False
