"""A session in a played cluster: its object, its pod, and an application that tells what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import WSMsgType, web

from cotenant.controller.client import kube
from cotenant.controller.client.kube import Document
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.support.fake_kube import FakeKube

PATH: Final = "/sessions/team-a/nb/app/"
TOKEN: Final = "token-of-the-application"


def session(application: str = "JupyterLab", phase: str = "Running", **status: Any) -> Document:
    usual = {"phase": phase, "job": "nb-session", "attempt": 1, "port": 8888, "path": PATH, "message": "it is as it is"}
    return {
        "metadata": {"namespace": "team-a", "name": "nb", "uid": "uid-of-nb"},
        "spec": {"application": application, "queue": "team-a"},
        "status": usual | status,
    }


def pod(attempt: int = 1, phase: str = "Running") -> Document:
    labels = {"cotenant.dev/job": "nb-session", "cotenant.dev/attempt": str(attempt)}
    return {
        "metadata": {"namespace": "team-a", "name": f"nb-{attempt}", "labels": labels},
        "status": {"phase": phase},
    }


class PlayedApplication:
    """Tells of each request its headers; echoes bodies and WebSockets."""

    def __init__(self) -> None:
        self.port = 0
        self.password = ""
        """As of code-server: asked for by a form."""

    def application(self) -> web.Application:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_get(PATH + "lab", self._page)
        app.router.add_get(PATH + "login", self._page)
        app.router.add_post(PATH + "login", self._log_in)
        app.router.add_get(PATH + "headers", self._headers)
        app.router.add_post(PATH + "echo", self._echo)
        app.router.add_get(PATH + "away", self._away)
        app.router.add_get(PATH + "half", self._half)
        app.router.add_get(PATH + "socket", self._socket)
        return app

    async def _page(self, _: web.Request) -> web.Response:
        response = web.Response(text="a notebook", headers={"Clear-Site-Data": '"cookies"'})
        response.set_cookie("username", "somebody", domain="example.com", path=PATH)
        response.headers.add("Set-Cookie", "cotenant-opened=taken; Path=/")
        return response

    async def _log_in(self, request: web.Request) -> web.Response:
        form = await request.post()
        response = web.Response(status=302, headers={"Location": PATH})
        if form.get("password") == self.password:
            response.set_cookie("code-server-session", "let-in")
        return response

    async def _headers(self, request: web.Request) -> web.Response:
        return web.json_response([[name.lower(), value] for name, value in request.headers.items()])

    async def _echo(self, request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def _away(self, request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": f"http://127.0.0.1:8888{PATH}lab"})

    async def _half(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half of it")
        assert request.transport is not None
        request.transport.abort()
        return response

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("v1.kernel.websocket.jupyter.org",))
        await socket.prepare(request)
        await socket.send_str(request.headers["Authorization"])
        async for message in socket:
            if message.data == "end":
                await socket.close(code=4001)
            elif message.type is WSMsgType.TEXT:
                await socket.send_str(message.data.upper())
            else:
                await socket.send_bytes(message.data[::-1])
        return socket


@asynccontextmanager
async def listening(application: PlayedApplication) -> AsyncIterator[PlayedApplication]:
    runner = web.AppRunner(application.application(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    application.port = runner.addresses[0][1]
    try:
        yield application
    finally:
        await runner.cleanup()


def caller_of(application: PlayedApplication, document: Document | None = None) -> FakeCaller:
    """A person who may reach the session."""
    caller = FakeCaller(FakeKube())
    caller.kube.put(kube.SESSIONS, document or session())
    caller.kube.put(kube.PODS, pod())
    caller.pods["nb-1"] = application.port, {"port": 1, "path": "/elsewhere", "token": TOKEN}
    return caller
