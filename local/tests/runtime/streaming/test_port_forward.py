"""Ports of a pod as kubectl reaches them, over SPDY."""

import asyncio
import socket
from typing import Any

import pytest

from cotenant_local.runtime.streaming import port_forward
from cotenant_local.runtime.streaming.port_forward import ForwardError
from local.tests.runtime.cri_messages import Message


class PlayedStream:
    """Gives its pieces, then its end; keeps what is written."""

    def __init__(self, number: int, kind: str, port: str, request: str = "", pieces: tuple[bytes, ...] = ()) -> None:
        self.number, self.pieces = number, list(pieces)
        self.headers = {"streamtype": kind, "port": port} | ({"requestid": request} if request else {})
        self.written, self.closed = b"", False
        self.connection = self

    async def read(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    async def write(self, data: bytes) -> None:
        self.written += data

    async def close(self) -> None:
        self.closed = True

    def forget(self, *_: object) -> None:
        return


@pytest.fixture
def forwarded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ports that connections were made to: each answers with what it got, in capitals; 7071 is closed."""
    ports: list[int] = []

    async def connect(zygote: object, sandbox: object, port: int) -> Any:
        ports.append(port)
        if port == 7071:
            raise ForwardError("port 7071: Connection refused")
        here, there = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=there)

        async def answer() -> None:
            writer.write((await reader.read()).upper())
            writer.close()

        answers.append(asyncio.create_task(answer()))
        return await asyncio.open_connection(sock=here)

    answers: list[asyncio.Task[None]] = []
    monkeypatch.setattr(port_forward, "connect", connect)
    return ports


async def carried(*streams: PlayedStream) -> None:
    pod: Any = Message(id="pod")
    forward = port_forward.SpdyPortForward(pod, pod)
    for stream in streams:
        opened: Any = forward._opened
        opened(stream)
    await asyncio.gather(*forward.tasks)


async def test_streams_are_paired_by_their_request(forwarded: list[int]) -> None:
    pairs = [
        (PlayedStream(1, "error", "7070", "a"), PlayedStream(3, "data", "7070", "a", (b"one",))),
        (PlayedStream(7, "error", "80", "b"), PlayedStream(5, "data", "80", "b", (b"t", b"wo"))),
    ]
    await carried(pairs[0][0], pairs[1][1], pairs[0][1], pairs[1][0])
    assert forwarded == [7070, 80]
    assert [(data.written, data.closed, error.written, error.closed) for error, data in pairs] == [
        (b"ONE", True, b"", True),
        (b"TWO", True, b"", True),
    ]


async def test_streams_without_a_request_are_paired_by_their_numbers(forwarded: list[int]) -> None:
    error, data = PlayedStream(1, "error", "7070"), PlayedStream(3, "data", "7070", pieces=(b"one",))
    await carried(error, data)
    assert (forwarded, data.written) == ([7070], b"ONE")


async def test_a_closed_port_is_told_on_the_error_stream(forwarded: list[int]) -> None:
    error, data = PlayedStream(1, "error", "7071"), PlayedStream(3, "data", "7071")
    await carried(error, data)
    assert error.written == b"error forwarding port 7071 to pod pod: port 7071: Connection refused"
    assert (error.closed, data.closed, data.written) == (True, True, b"")


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (PlayedStream(3, "sound", "80"), "streamtype 'sound', port '80'"),
        (PlayedStream(3, "data", "none"), "streamtype 'data', port 'none'"),
        (PlayedStream(3, "data", "0"), "streamtype 'data', port '0'"),
        (PlayedStream(3, "data", "65536"), "streamtype 'data', port '65536'"),
        (PlayedStream(3, "error", "80", "a"), "a second error stream for request a"),
    ],
)
async def test_a_stream_that_belongs_to_no_request_is_refused(stream: PlayedStream, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        await carried(PlayedStream(1, "error", "80", "a"), stream)
