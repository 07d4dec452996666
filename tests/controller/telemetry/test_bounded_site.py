"""A client holds a bounded number of connections of a port and cannot keep other clients from it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from cotenant.controller.telemetry import bounded_site
from cotenant.controller.telemetry.bounded_site import serve_bounded
from tests.controller.telemetry.test_probes import free_port
from tests.support.certificates import write_certificate

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HOST, FLOODER = "127.0.0.1", "127.0.0.2"


@asynccontextmanager
async def serving(folder: Path | None = None) -> AsyncIterator[int]:
    """A server that answers `ok`; its port."""
    app, port, tls = web.Application(), free_port(), None
    app.router.add_get("/", answer_ok)
    if folder is not None:
        write_certificate(folder, "localhost")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    runner = await serve_bounded(app, (HOST, port), tls=tls)
    try:
        yield port
    finally:
        await runner.cleanup()


async def answer_ok(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def silent(port: int, count: int, source: str = FLOODER) -> list[Connection]:
    """Connections that say nothing."""
    return [await asyncio.open_connection(HOST, port, local_addr=(source, 0)) for _ in range(count)]


async def left_open(connections: list[Connection]) -> list[bool]:
    """Whether the other end has left each one open, once there are no more of them than it may have."""
    async with asyncio.timeout(10):
        while True:
            found = [not reader.at_eof() for reader, _ in connections]
            if sum(found) <= bounded_site.CONNECTIONS_MAX:
                return found
            await asyncio.sleep(0)


async def get(port: int, folder: Path | None = None) -> str:
    trust = ssl.create_default_context(cafile=str(folder / "tls.crt")) if folder else True
    timeout = aiohttp.ClientTimeout(total=10)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{'https' if folder else 'http'}://localhost:{port}/", ssl=trust) as answer,
    ):
        return await answer.text()


def close(connections: list[Connection]) -> None:
    for _, writer in connections:
        writer.transport.abort()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_a_flood_of_silent_connections_keeps_nobody_from_an_answer(secure: bool, tmp_path: Path) -> None:
    folder = tmp_path if secure else None
    async with serving(folder) as port:
        flood = await silent(port, 300)
        assert await get(port, folder) == "ok"
        left = await left_open(flood)
        assert (any(left), left) == (True, sorted(left)), "the oldest go first"
        close(flood)


async def test_an_address_takes_no_connection_from_one_that_has_fewer() -> None:
    async with serving() as port:
        patient = await silent(port, 3, source=HOST)
        flood = await silent(port, 300)
        assert (await left_open(patient + flood))[:3] == [True] * 3
        close(patient + flood)


async def test_a_connection_without_a_request_is_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_site, "KEEP_S", 0.05)
    async with serving() as port:
        [(reader, writer)] = await silent(port, 1)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_what_does_not_speak_tls_is_no_fault(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(5):
            await reader.read()
        writer.close()
        assert (await get(port, tmp_path), caplog.messages) == ("ok", [])


async def test_after_the_end_nobody_is_taken() -> None:
    async with serving() as port:
        pass
    with socket.socket() as again:
        assert again.connect_ex((HOST, port)) != 0
