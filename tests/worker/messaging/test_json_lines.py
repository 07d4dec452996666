"""A channel hands on what it understands and refuses the rest, without ending. Real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cotenant_worker.messaging.json_lines import Channel
from cotenant_worker.supervision.messages import MESSAGES, Alive, Hello, Message


async def test_a_message_that_is_not_understood_is_refused_once_and_the_next_ones_are_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arrived: asyncio.Queue[Message | None] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for message in Channel(reader, writer, MESSAGES):
            arrived.put_nowait(message)
        arrived.put_nowait(None)

    server = await asyncio.start_unix_server(serve, str(tmp_path / "socket"))
    _, writer = await asyncio.open_unix_connection(str(tmp_path / "socket"))
    writer.write(b'{"op":"hello","role":"rank"}\n{"op":"obey"}\nnot JSON\n{"op":"alive"}\n{"op":"hel')
    writer.close()
    assert [await asyncio.wait_for(arrived.get(), 20) for _ in range(3)] == [Hello("rank"), Alive(), None]
    assert capfd.readouterr().err == "cotenant: a message was refused: message: unknown op 'obey'\n"
    server.close()
