"""Sessions over HTTP: from the dashboard's page through a ticket to the application, and what else is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from cotenant.controller.client import kube
from cotenant.dashboard.access.entrances import Entrances, viewer_of
from cotenant.dashboard.access.sessions import Sessions, Viewer
from cotenant.dashboard.opened import passing
from cotenant.dashboard.opened.gate import SessionGate
from cotenant.dashboard.opened.host import SessionsHost
from cotenant.dashboard.opened.openings import ENTER, Openings
from cotenant.dashboard.server import Dashboard
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.cli.dashboard.opened.played_session import (
    PATH,
    TOKEN,
    PlayedApplication,
    caller_of,
    listening,
    session,
)

CODE = "the-code-of-the-test"
PAGE = "/sessions/team-a/nb"
Client = TestClient[Request, Application]


class Person:
    """A person who has logged in to a dashboard, with a browser that also reaches the port of sessions."""

    def __init__(self, dashboard: Client, gate: Client, openings: Openings) -> None:
        self.dashboard, self.gate, self.openings = dashboard, gate, openings
        self.host = ""

    async def press_open(self, **headers: str) -> str:
        """The address that the button leads to."""
        async with self.dashboard.post(PAGE, headers=headers, allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()
            return answer.headers["Location"]

    async def open(self) -> None:
        address = urlsplit(await self.press_open())
        self.host = address.netloc
        async with self.ask("GET", f"{address.path}?{address.query}") as answer:
            assert (answer.status, answer.headers["Location"]) == (303, PATH + "lab")

    def ask(self, method: str, path: str, host: str = "", **options: Any) -> Any:
        headers = {"Host": host or self.host} | options.pop("headers", {})
        return self.gate.request(method, path, headers=headers, allow_redirects=False, **options)

    @property
    def origin(self) -> str:
        return f"http://{self.host}"


async def person_of(caller: FakeCaller) -> Person:
    async def own() -> Viewer:
        return await viewer_of(caller)

    sessions = Sessions(lambda: 0.0)
    openings = Openings(SessionsHost(name="sessions.example:8444", is_secure=False), sessions)
    entrances = Entrances(sessions, own=own, code=CODE)
    dashboard = Dashboard(sessions=sessions, entrances=entrances, is_secure=False, openings=openings)
    pages = TestClient(TestServer(dashboard.application()))
    gate = TestClient(TestServer(SessionGate(openings=openings, hidden="X-Token").application()))
    await pages.start_server()
    await gate.start_server()
    await pages.get(f"/login?code={CODE}")
    return Person(pages, gate, openings)


@pytest.fixture
async def application() -> AsyncIterator[PlayedApplication]:
    async with listening(PlayedApplication()) as found:
        yield found


@pytest.fixture
def caller(application: PlayedApplication) -> FakeCaller:
    return caller_of(application)


@pytest.fixture
async def person(caller: FakeCaller) -> AsyncIterator[Person]:
    found = await person_of(caller)
    yield found
    await found.gate.close()
    await found.dashboard.close()


async def test_the_page_of_a_session_has_a_button_that_leads_to_its_application(person: Person) -> None:
    async with person.dashboard.get(PAGE) as answer:
        page, policy = await answer.text(), answer.headers["Content-Security-Policy"]
    assert ">Open</button>" in page
    assert "form-action 'self' http://*.sessions.example:8444" in policy
    await person.open()
    async with person.ask("GET", PATH + "lab") as answer:
        assert (answer.status, await answer.text()) == (200, "a notebook")
        assert answer.headers.getall("Set-Cookie") == ["username=somebody; Path=" + PATH]
        assert "Clear-Site-Data" not in answer.headers


async def test_sessions_are_listed_and_a_shell_says_how_it_is_opened(person: Person, caller: FakeCaller) -> None:
    async with person.dashboard.get("/sessions") as answer:
        page = await answer.text()
    assert ("team-a/nb" in page, "JupyterLab" in page) == (True, True)
    caller.kube.put(kube.SESSIONS, session("Shell"))
    for _ in range(50):
        async with person.dashboard.get(PAGE) as answer:
            if "kubectl cotenant session open team-a/nb" in (page := await answer.text()):
                break
    assert ">Open</button>" not in page
    assert "A shell has no page" in page


async def test_the_cookie_of_an_opening_is_for_no_script_and_its_host_alone(person: Person) -> None:
    address = urlsplit(await person.press_open())
    async with person.ask("GET", f"{address.path}?{address.query}", host=address.netloc) as answer:
        (cookie,) = answer.headers.getall("Set-Cookie")
        assert answer.headers["Referrer-Policy"] == "no-referrer"
    name, *attributes = cookie.split("; ")
    assert name.startswith("cotenant-opened=")
    assert sorted(attributes) == ["HttpOnly", "Path=/", "SameSite=Lax"]
    assert Openings(SessionsHost(name="x", is_secure=True), Sessions(lambda: 0.0)).cookie_name.startswith("__Host-")


async def test_the_application_gets_its_token_and_nothing_of_the_person(person: Person) -> None:
    await person.open()
    sent = {
        "Authorization": "Bearer of-the-cluster",
        "X-Token": "of-the-cluster",
        "Cookie": "_oauth2_proxy=of-the-domain",
    }
    cookie = "; ".join(f"{one.key}={one.value}" for one in person.gate.session.cookie_jar)
    sent["Cookie"] += "; " + cookie
    async with person.ask("GET", PATH + "headers", headers=sent) as answer:
        found = dict(json.loads(await answer.text()))
    assert found["authorization"] == f"token {TOKEN}"
    assert found["host"] == "127.0.0.1:8888"
    assert "of-the-cluster" not in str(found)
    assert "cookie" not in found
    assert "cotenant" not in str(found)


async def test_bodies_are_passed_on_both_ways(person: Person) -> None:
    await person.open()
    body = bytes(range(256)) * 8192
    async with person.ask("POST", PATH + "echo", data=body, headers={"Origin": person.origin}) as answer:
        assert await answer.read() == body
    async with person.ask("GET", PATH + "away") as answer:
        assert (answer.status, answer.headers["Location"]) == (302, PATH + "lab")
    with pytest.raises(aiohttp.ClientPayloadError):
        async with person.ask("GET", PATH + "half") as answer:
            await answer.read()


async def test_a_websocket_is_passed_on_with_its_protocol_its_messages_and_its_end(person: Person) -> None:
    await person.open()
    protocols = ("unknown", "v1.kernel.websocket.jupyter.org")
    headers = {"Host": person.host, "Origin": person.origin}
    async with person.gate.ws_connect(PATH + "socket", protocols=protocols, headers=headers) as socket:
        assert socket.protocol == "v1.kernel.websocket.jupyter.org"
        assert (await socket.receive()).data == f"token {TOKEN}"
        await socket.send_str("print(1)")
        assert (await socket.receive()).data == "PRINT(1)"
        await socket.send_bytes(b"\0\1\2")
        assert (await socket.receive()).data == b"\2\1\0"
        await socket.send_str("end")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 4001


async def test_open_websockets_are_bounded_and_counted(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    await person.open()
    monkeypatch.setattr(passing, "SOCKETS_MAX", 1)
    headers = {"Host": person.host, "Origin": person.origin}
    async with person.gate.ws_connect(PATH + "socket", headers=headers):
        with pytest.raises(aiohttp.WSServerHandshakeError, match="429"):
            await person.gate.ws_connect(PATH + "socket", headers=headers)
    with pytest.raises(aiohttp.WSServerHandshakeError, match="404"):
        await person.gate.ws_connect(PATH + "nowhere", headers=headers)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        pytest.param(PATH + "lab", {}, 200, id="its own page"),
        pytest.param(PATH + "lab", {"Host": "sessions.example:8444"}, 404, id="no session"),
        pytest.param(PATH + "lab", {"Host": "nb-0.sessions.example:8444"}, 401, id="by the name of another session"),
        pytest.param(PATH + "lab", {"Origin": "http://nb-0.sessions.example:8444"}, 403, id="asked for by another"),
        pytest.param(PATH + "lab", {"Sec-Fetch-Site": "same-site"}, 403, id="read by another session"),
        pytest.param(ENTER + "?ticket=guessed", {}, 403, id="a ticket that nobody gave"),
    ],
)
async def test_a_cookie_opens_one_origin_for_its_own_pages(
    person: Person, path: str, headers: dict[str, str], status: int
) -> None:
    await person.open()
    async with person.ask("GET", path, headers=headers) as answer:
        assert answer.status == status


async def test_without_a_cookie_there_is_nothing(person: Person) -> None:
    await person.open()
    person.gate.session.cookie_jar.clear()
    async with person.ask("GET", PATH + "lab") as answer:
        assert answer.status == 401
        assert "from its page on the dashboard" in await answer.text()
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


async def test_who_may_not_forward_ports_reads_why_on_the_page(person: Person, caller: FakeCaller) -> None:
    caller.forwards = False
    assert await person.press_open() == PAGE
    async with person.dashboard.get(PAGE) as answer:
        assert "It was not opened: you may not forward ports of pods in team-a" in await answer.text()


async def test_a_form_of_another_site_opens_nothing(person: Person, caller: FakeCaller) -> None:
    async with person.dashboard.post(PAGE, headers={"Origin": "https://evil.example"}) as answer:
        assert answer.status == 403
    assert not [call for call in caller.calls if call.startswith("EXEC")]
    person.dashboard.session.cookie_jar.clear()
    async with person.dashboard.post(PAGE, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/login")


async def test_an_application_that_is_gone_is_said_to_be(person: Person, caller: FakeCaller) -> None:
    await person.open()
    caller.pods["nb-1"] = (1, {})
    async with person.ask("GET", PATH + "lab") as answer:
        assert (answer.status, "is not reached" in await answer.text()) == (502, True)
    caller.forwards = False
    async with person.ask("GET", PATH + "lab") as answer:
        assert (answer.status, "403" in await answer.text()) == (502, True)


async def test_where_sessions_have_no_host_there_is_no_button(caller: FakeCaller) -> None:
    async def own() -> Viewer:
        return await viewer_of(caller)

    sessions = Sessions(lambda: 0.0)
    entrances = Entrances(sessions, own=own, code=CODE)
    app = Dashboard(sessions=sessions, entrances=entrances, is_secure=False).application()
    async with TestClient(TestServer(app)) as client:
        await client.get(f"/login?code={CODE}")
        async with client.get(PAGE) as answer:
            page = await answer.text()
            assert answer.headers["Content-Security-Policy"].endswith("form-action 'self'")
        async with client.post(PAGE, allow_redirects=False) as answer:
            assert answer.status == 404
    assert ">Open</button>" not in page
    assert "kubectl cotenant session open team-a/nb" in page
