"""Streams into pods: a command's output and a port's bytes, out of the messages that a kubelet sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cotenant.controller.client.kube import UnreachableError
from cotenant.dashboard.reading.caller_client import CallerClient, DeniedError
from cotenant.sdk.kubeconfig import ApiServer as Credentials

PORT = (8888).to_bytes(2, "little")
Kubelet = Callable[[web.WebSocketResponse], Awaitable[None]]


class ApiServer:
    """Answers the WebSockets to one pod by what a test plays."""

    def __init__(self, play: Kubelet, status: int = 101) -> None:
        self.play, self.status = play, status
        self.asked: web.Request | None = None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.asked = request
        if self.status != 101:
            return web.Response(status=self.status)
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        await self.play(socket)
        return socket


@pytest.fixture
async def reached() -> AsyncIterator[Callable[[ApiServer], Awaitable[CallerClient]]]:
    opened: list[CallerClient | TestServer] = []

    async def start(server: ApiServer) -> CallerClient:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/team-a/pods/nb-1/{what}", server.serve)
        listening = TestServer(app)
        await listening.start_server()
        caller = CallerClient(Credentials(str(listening.make_url("")), "", {}, {"token": "of-alice"}))
        opened.extend((caller, listening))
        return caller

    yield start
    for one in opened:
        await one.close()


async def test_a_forwarded_port_gives_and_takes_bytes_without_their_frames(
    reached: Callable[[ApiServer], Awaitable[CallerClient]],
) -> None:
    async def kubelet(socket: web.WebSocketResponse) -> None:
        for message in (b"\0" + PORT, b"\1" + PORT, b"\0HTTP/1.1 ", b"\0"):
            await socket.send_bytes(message)
        await socket.send_bytes(b"\0" + (await socket.receive_bytes())[1:].upper())

    server = ApiServer(kubelet)
    stream = await (await reached(server)).forward("team-a", "nb-1", 8888)
    await stream.write(b"get /")
    assert [await stream.read() for _ in range(3)] == [b"HTTP/1.1 ", b"GET /", b""]
    await stream.close()
    assert server.asked is not None
    assert server.asked.path_qs.endswith("/portforward?ports=8888")
    assert server.asked.headers["Authorization"] == "Bearer of-alice"
    with pytest.raises(UnreachableError):
        await stream.write(b"more")


async def test_a_port_at_which_nothing_listens_says_so(
    reached: Callable[[ApiServer], Awaitable[CallerClient]],
) -> None:
    async def kubelet(socket: web.WebSocketResponse) -> None:
        for message in (b"\0" + PORT, b"\1" + PORT, b"\1connection refused"):
            await socket.send_bytes(message)

    stream = await (await reached(ApiServer(kubelet))).forward("team-a", "nb-1", 8888)
    with pytest.raises(UnreachableError, match="connection refused"):
        await stream.read()


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, DeniedError), (401, DeniedError), (404, DeniedError), (429, UnreachableError), (503, UnreachableError)],
)
async def test_a_refusal_names_the_right(
    reached: Callable[[ApiServer], Awaitable[CallerClient]], status: int, error: type[Exception]
) -> None:
    async def kubelet(_: web.WebSocketResponse) -> None: ...

    caller = await reached(ApiServer(kubelet, status))
    with pytest.raises(error, match=f"{status} to pods/portforward"):
        await caller.forward("team-a", "nb-1", 8888)


async def test_the_output_of_a_command_is_what_it_prints(
    reached: Callable[[ApiServer], Awaitable[CallerClient]],
) -> None:
    async def kubelet(socket: web.WebSocketResponse) -> None:
        for message in (b"\1", b'\1{"token"', b"\1: 1}", b'\3{"status": "Success"}'):
            await socket.send_bytes(message)

    server = ApiServer(kubelet)
    caller = await reached(server)
    assert await caller.output_of("team-a", "nb-1", ("cat", "/tmp/a b")) == '{"token": 1}'
    assert server.asked is not None
    assert server.asked.query.getall("command") == ["cat", "/tmp/a b"]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([b"\2cat: no such file\n", b'\3{"status": "Failure"}'], "no such file"),
        ([b"\1half"], "the command failed"),
        ([b"\1" + b"x" * 70_000, b'\3{"status": "Success"}'], "the command failed"),
        ([b"\3[]"], "the command failed"),
    ],
    ids=["it failed", "it broke off", "it prints too much", "no status"],
)
async def test_a_command_that_fails_says_what_it_said(
    reached: Callable[[ApiServer], Awaitable[CallerClient]], messages: list[bytes], why: str
) -> None:
    async def kubelet(socket: web.WebSocketResponse) -> None:
        for message in messages:
            await socket.send_bytes(message)

    with pytest.raises(UnreachableError, match=why):
        await (await reached(ApiServer(kubelet))).output_of("team-a", "nb-1", ("cat", "x"))


async def test_who_has_logged_out_reaches_no_pod(reached: Callable[[ApiServer], Awaitable[CallerClient]]) -> None:
    async def kubelet(socket: web.WebSocketResponse) -> None:
        async for _ in socket:
            pass

    caller = await reached(ApiServer(kubelet))
    stream = await caller.forward("team-a", "nb-1", 8888)
    await caller.close()
    assert await stream.read() == b""
    with pytest.raises(UnreachableError, match="the login is over"):
        await caller.forward("team-a", "nb-1", 8888)
