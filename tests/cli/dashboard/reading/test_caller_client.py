"""The API server with a caller's credentials: who asks is found out again, and named in no representation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cotenant.controller.client.kube import NODES, UnreachableError, VersionGoneError
from cotenant.dashboard.reading.caller_client import CallerClient, DeniedError, Scope, token_of_caller
from cotenant.sdk.kubeconfig import ApiServer

PLUGIN = """#!/bin/sh
echo again >> "$0.calls"
echo '{"status": {"token": "of-'$(wc -l < "$0.calls")'"}}'
"""
Reach = Callable[[Mapping[str, Any]], Awaitable[CallerClient]]


@pytest.fixture
async def reached() -> AsyncIterator[Reach]:
    opened: list[CallerClient | TestServer] = []

    async def node(request: web.Request) -> web.Response:
        if request.match_info["name"].isdigit():
            return web.json_response({"message": "no"}, status=int(request.match_info["name"]))
        if request.headers["Authorization"] != "Bearer of-2":
            return web.json_response({"message": "Unauthorized"}, status=401)
        return web.json_response({"kind": "Node"})

    async def start(user: Mapping[str, Any]) -> CallerClient:
        app = web.Application()
        app.router.add_get("/api/v1/nodes/{name}", node)
        listening = TestServer(app)
        await listening.start_server()
        caller = CallerClient(ApiServer(str(listening.make_url("")), "", {}, user))
        opened.extend((caller, listening))
        return caller

    yield start
    for one in opened:
        await one.close()


async def test_a_plugin_is_asked_again_when_its_token_is_refused(reached: Reach, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    client = await reached({"exec": {"command": str(plugin)}})
    assert await client.get(NODES, "n") == {"kind": "Node"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [(401, DeniedError), (403, DeniedError), (404, DeniedError), (410, VersionGoneError), (429, UnreachableError)],
)
async def test_a_refusal_is_told_apart_from_no_answer(reached: Reach, code: int, kind: type[Exception]) -> None:
    client = await reached({"token": "of-2"})
    with pytest.raises(kind, match="no") as raised:
        await client.get(NODES, str(code))
    assert getattr(raised.value, "code", code) == code


async def test_credentials_that_cannot_be_read_are_no_refusal(reached: Reach, tmp_path: Path) -> None:
    client = await reached({"tokenFile": str(tmp_path / "none")})
    with pytest.raises(UnreachableError, match="it is not known who asks"):
        [one async for one in client.watch(Scope(NODES), 1)]


async def test_a_closed_client_asks_nobody(reached: Reach) -> None:
    client = await reached({"token": "of-2"})
    await client.close()
    with pytest.raises(UnreachableError, match="the login is over"):
        await client.get(NODES, "n")


def test_a_token_is_in_no_representation() -> None:
    assert "secret" not in repr(token_of_caller("https://kubernetes", Path("ca.crt"), "secret"))
