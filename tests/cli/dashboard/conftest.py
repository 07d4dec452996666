"""A dashboard over a played cluster, asked by an HTTP client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from cotenant.dashboard.access.entrances import Entrances, viewer_of
from cotenant.dashboard.access.sessions import Sessions, Viewer
from cotenant.dashboard.server import Dashboard
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.cli.dashboard.played_cluster import NOW, played

CODE = "the-code-of-the-test"
Browser = TestClient[Request, Application]
Open = Callable[[FakeCaller], Awaitable[Browser]]


@pytest.fixture
async def open_dashboard() -> AsyncIterator[Open]:
    """A dashboard of this caller, and a client that has logged in to it."""
    opened: list[Browser] = []

    async def open_one(caller: FakeCaller) -> Browser:
        async def own() -> Viewer:
            return await viewer_of(caller)

        sessions = Sessions(lambda: 0.0)
        entrances = Entrances(sessions, own=own, code=CODE)
        dashboard = Dashboard(sessions=sessions, entrances=entrances, is_secure=False, clock=NOW.timestamp)
        client = TestClient(TestServer(dashboard.application()))
        await client.start_server()
        opened.append(client)
        await client.get(f"/login?code={CODE}")
        return client

    yield open_one
    for client in opened:
        await client.close()


@pytest.fixture
async def browser(open_dashboard: Open) -> Browser:
    """A browser of a person who may see everything."""
    return await open_dashboard(played())
