"""JSON lines between processes: whole documents in order, and None when the other end is gone."""

import socket

import pytest

from cotenant_local.host import json_lines
from cotenant_local.host.json_lines import JsonLines


async def test_documents_arrive_whole_and_in_order() -> None:
    here, there = socket.socketpair()
    peer, other = await JsonLines.over(here), await JsonLines.over(there)
    peer.send(progress="one\ntwo")
    peer.send(ready=True, seconds=1.5)
    assert [await other.receive(), await other.receive()] == [{"progress": "one\ntwo"}, {"ready": True, "seconds": 1.5}]
    await peer.close()
    assert await other.receive() is None
    await other.close()


@pytest.mark.parametrize("sent", [b"", b'{"half": '], ids=["nothing", "half a line"])
async def test_an_end_before_a_whole_line_is_the_end_of_the_stream(sent: bytes) -> None:
    here, there = socket.socketpair()
    peer = await JsonLines.over(here)
    with there:
        there.sendall(sent)
    assert await peer.receive() is None
    await peer.close()


async def test_what_is_no_json_is_an_error() -> None:
    here, there = socket.socketpair()
    peer = await JsonLines.over(here)
    with there:
        there.sendall(b"hello\n")
        with pytest.raises(ValueError, match="Expecting value"):
            await peer.receive()
    await peer.close()


def test_a_message_is_one_line() -> None:
    assert json_lines.encode(op="signal", number=15) == b'{"op": "signal", "number": 15}\n'
