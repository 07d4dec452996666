"""One question to a worker pod: whatever is at the other end, the answer is bounded in time and size."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from cotenant.contract import Progress
from cotenant.contract.decoding.bounded_json import Malformed
from cotenant.controller.reports import progress_request
from cotenant.controller.reports.progress_request import get_progress
from cotenant_worker.progress import http_endpoint
from cotenant_worker.progress.progress_board import ProgressBoard

Respond = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def serving(respond: Respond) -> AsyncIterator[int]:
    """A server that does whatever `respond` does; its port."""
    ended: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(writer)
        try:
            await respond(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in ended:
            writer.transport.abort()


async def asked(answer: bytes, bytes_max: int = 1000) -> bytes | Malformed | None:
    """What becomes of these bytes as an answer."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with serving(respond) as port:
        return await get_progress("127.0.0.1", port, bytes_max=bytes_max)


async def test_the_launcher_is_understood() -> None:
    board = ProgressBoard(state="training")
    port = await _free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cotenant.names.PROGRESS_PORT", port)
        async with await http_endpoint.serve(board, "127.0.0.1", {}):
            body = await get_progress("127.0.0.1", port, bytes_max=10_000)
    assert body == board.progress().to_json().encode()
    assert Progress.from_json(body) == board.progress()


async def _free_port() -> int:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"\r\n{}", b"{}"),
        (OK + b"Content-Length: 2\r\n\r\n{} and more", b"{}"),
        (OK + b"content-encoding: identity\r\n\r\n{}", b"{}"),
        (OK + b"\r\n" + b"x" * 1000, b"x" * 1000),
        (OK + b"\r\n" + b"x" * 1001, Malformed("is longer than 1000 bytes")),
        (OK + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001, Malformed("is longer than 1000 bytes")),
        (OK + b"Content-Length: -1\r\n\r\n", Malformed("is longer than 1000 bytes")),
        (OK + b"Content-Length: " + b"9" * 60 + b"\r\n\r\n", Malformed("is longer than 1000 bytes")),
        (OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(1 << 20)),
         Malformed("is compressed or in chunks, which was not asked for")),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
         Malformed("is compressed or in chunks, which was not asked for")),
        (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n",
         Malformed("is a redirect, which is not followed")),
        (b"HTTP/1.1 308 Permanent Redirect\r\nLocation: /x\r\n\r\n", Malformed("is a redirect, which is not followed")),
        (OK + b"X: y\r\n" * 3000 + b"\r\n{}", Malformed("has a header of more than 16384 bytes")),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", Malformed("is not HTTP")),
        (b"HTTP/1.1 500 Oops\r\n\r\n{}", None),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", None),
        (OK + b"Content-Length: 10\r\n\r\n{}", None),
        (b"", None),
        (b"HTTP/1.1 200", None),
    ],
    ids=lambda value: ascii(value)[:50],
)  # fmt: skip
async def test_an_answer_is_a_body_a_reason_or_nothing(answer: bytes, body: bytes | Malformed | None) -> None:
    assert await asked(answer) == body


async def test_a_redirect_is_asked_for_nowhere() -> None:
    elsewhere: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        elsewhere.append(await reader.read(1))

    async with serving(listen) as port:
        await asked(b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:%d/\r\n\r\n" % port)
    assert elsewhere == []


async def test_the_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert await asked(OK + b"\r\n{}") == b"{}"


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One byte at a time, without end."""
    writer.write(OK + b"\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write until the reader takes no more."""
    writer.write(OK + b"\r\n")
    while True:
        writer.write(bytes(1 << 20))
        await writer.drain()


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize("respond", [drip, silence])
async def test_an_answer_has_to_be_whole_in_time(monkeypatch: pytest.MonkeyPatch, respond: Respond) -> None:
    monkeypatch.setattr(progress_request, "DEADLINE_S", 0.2)
    started = time.monotonic()
    async with serving(respond) as port:
        assert await get_progress("127.0.0.1", port, bytes_max=1000) is None
    assert time.monotonic() - started < 5


async def test_no_more_is_read_than_was_allowed() -> None:
    async with serving(pour) as port:
        assert await get_progress("127.0.0.1", port, bytes_max=1 << 20) == Malformed(f"is longer than {1 << 20} bytes")


async def test_where_nobody_listens_there_is_no_answer() -> None:
    assert await get_progress("127.0.0.1", await _free_port(), bytes_max=1000) is None
