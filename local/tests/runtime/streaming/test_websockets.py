"""Exec and ports as the Python client and browsers reach them."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import WSMsgType

from cotenant_local.runtime.streaming import port_forward, websockets


class PlayedSocket:
    """A WebSocket whose messages are given; it keeps what is sent."""

    def __init__(self, *messages: tuple[WSMsgType, Any]) -> None:
        self.messages = [SimpleNamespace(type=kind, data=data) for kind, data in messages]
        self.sent: list[bytes] = []
        self.closed = False

    async def receive(self) -> SimpleNamespace:
        return self.messages.pop(0) if self.messages else SimpleNamespace(type=WSMsgType.CLOSED, data=None)

    def __aiter__(self) -> "PlayedSocket":
        return self

    async def __anext__(self) -> SimpleNamespace:
        if not self.messages:
            raise StopAsyncIteration
        return self.messages.pop(0)

    async def send_bytes(self, data: bytes) -> None:
        self.sent.append(data)

    async def close(self) -> None:
        self.closed = True


def binary(*messages: bytes) -> PlayedSocket:
    return PlayedSocket(*((WSMsgType.BINARY, message) for message in messages))


def channels(socket: Any, *, json_status: bool = True) -> websockets.WebSocketChannels:
    return websockets.WebSocketChannels(socket, json_status=json_status)


async def test_messages_are_events_of_the_channel_that_they_begin_with() -> None:
    client = binary(b"\x00typed", b"", b"\x00", b'\x04{"Width":1}', b"\x09what", b"\xff\x01", b"\xff\x00")
    client.messages.insert(1, SimpleNamespace(type=WSMsgType.TEXT, data="text"))
    made = channels(client)
    assert [await made.receive() for _ in range(4)] == [
        ("stdin", b"typed"),
        ("resize", b'{"Width":1}'),
        ("stdin", b""),
        None,
    ]


@pytest.mark.parametrize(
    ("json_status", "status", "message"),
    [
        (True, {"status": "Success"}, b'\x03{"status": "Success"}'),
        (False, {"status": "Success"}, b"\x03"),
        (False, {"status": "Failure", "message": "exit 3"}, b"\x03exit 3"),
    ],
)
async def test_output_and_status_are_sent_with_the_number_of_their_channel(
    json_status: bool, status: dict[str, str], message: bytes
) -> None:
    client = binary()
    made = channels(client, json_status=json_status)
    await made.send("stderr", b"oh")
    await made.finish(status)
    assert (client.sent, client.closed) == ([b"\x02oh", message], True)


async def test_ports_are_named_first_and_a_closed_one_is_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, there = socket.socketpair()

    async def connect(zygote: object, sandbox: object, port: int) -> Any:
        if port == 81:
            raise port_forward.ForwardError("refused")
        return await asyncio.open_connection(sock=here)

    monkeypatch.setattr(port_forward, "connect", connect)
    client: Any = binary(b"\x02hello", b"\x00nothing listens there")
    nothing: Any = None
    await websockets.forward(nothing, nothing, [81, 7070], client)
    assert client.sent == [
        b"\x00\x51\x00",
        b"\x01\x51\x00",
        b"\x02\x9e\x1b",
        b"\x03\x9e\x1b",
        b"\x01error forwarding port 81: refused",
    ]
    with there:
        assert there.recv(99) == b"hello"
