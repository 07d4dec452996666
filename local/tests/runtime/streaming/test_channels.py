"""Channels of a remote command over SPDY streams that are only played: which are taken, and what a session receives."""

import asyncio
import json
from typing import Any

import pytest

from cotenant_local.runtime.streaming import channels
from cotenant_local.runtime.streaming.channels import SpdyChannels


class PlayedStream:
    """Gives its pieces, then its end; keeps what is written."""

    def __init__(self, kind: str, *pieces: bytes) -> None:
        self.headers = {"streamtype": kind}
        self.pieces = list(pieces)
        self.written = b""
        self.closed = False

    async def read(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    async def write(self, data: bytes) -> None:
        self.written += data

    async def close(self) -> None:
        self.closed = True


class PlayedConnection:
    """A client that opens its streams at once, and hangs up when asked to."""

    def __init__(self, session: SpdyChannels, *streams: PlayedStream) -> None:
        self.session, self.streams = session, streams
        self.left = asyncio.Event()
        self.writer = self

    async def run(self) -> None:
        opened: Any = self.session._opened
        for stream in self.streams:
            opened(stream)
        await self.left.wait()

    def close(self) -> None:
        self.left.set()


def session(*streams: PlayedStream, json_status: bool = True) -> tuple[SpdyChannels, PlayedConnection]:
    none: Any = None
    made = SpdyChannels(none, none, json_status=json_status)
    connection: Any = PlayedConnection(made, *streams)
    made.connection = connection
    return made, connection


async def test_a_session_receives_input_its_end_and_sizes_and_none_when_the_client_is_gone() -> None:
    made, connection = session(PlayedStream("stdin", b"a", b"b"), PlayedStream("resize", b"{}"), PlayedStream("error"))
    await made.open({"stdin", "resize", "error"})
    received = [await made.receive() for _ in range(4)]
    assert [event for event in received if event and event[0] == "stdin"] == [
        ("stdin", b"a"),
        ("stdin", b"b"),
        ("stdin", b""),
    ]
    assert ("resize", b"{}") in received
    connection.close()
    assert await made.receive() is None
    await made.stop()


@pytest.mark.parametrize("second", ["stdout", "sound", ""])
async def test_a_channel_that_is_not_known_or_there_already_is_refused(second: str) -> None:
    made, _ = session()
    opened: Any = made._opened
    opened(PlayedStream("stdout"))
    with pytest.raises(ValueError, match=f"^{second}$"):
        opened(PlayedStream(second))


async def test_a_client_that_does_not_open_what_it_announced_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channels, "CREATION_DEADLINE_S", 0.01)
    made, _ = session(PlayedStream("error"))
    with pytest.raises(TimeoutError):
        await made.open({"error", "stdout"})
    await made.stop()


@pytest.mark.parametrize(
    ("json_status", "status", "message"),
    [
        (True, {"status": "Success"}, b'{"status": "Success"}'),
        (False, {"status": "Success"}, b""),
        (False, {"status": "Failure", "message": "exit 3"}, b"exit 3"),
    ],
)
async def test_a_session_ends_with_its_status_and_the_end_of_every_stream(
    json_status: bool, status: dict[str, Any], message: bytes
) -> None:
    error, stdout = PlayedStream("error"), PlayedStream("stdout")
    made, connection = session(error, stdout, json_status=json_status)
    await made.open({"error", "stdout"})
    await made.send("stdout", b"out")
    await made.send("stderr", b"there is no such stream")
    connection.close()
    await made.finish(status)
    assert (error.written, stdout.written, error.closed, stdout.closed) == (message, b"out", True, True)
    assert not message.startswith(b"{") or json.loads(message) == status
