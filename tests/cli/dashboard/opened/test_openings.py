"""Openings: a ticket that is good once, a cookie for one session, an end with the right, the session or the login."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from urllib.parse import parse_qs, urlsplit

import pytest

from cotenant.controller.client import kube
from cotenant.controller.client.kube import UnreachableError
from cotenant.dashboard.access.sessions import IDLE_S, Sessions, Viewer
from cotenant.dashboard.opened import openings as module
from cotenant.dashboard.opened import target
from cotenant.dashboard.opened.host import SessionsHost, label_of
from cotenant.dashboard.opened.openings import TICKET_S, Openings
from cotenant.dashboard.reading.caller_client import DeniedError
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.cli.dashboard.opened.played_session import (
    TOKEN,
    PlayedApplication,
    caller_of,
    listening,
    pod,
    session,
)

LABEL = label_of("team-a", "nb", "uid-of-nb")


class Desk:
    """One person who is logged in, and what they open."""

    def __init__(self, caller: FakeCaller, *, every_s: float = 3600.0) -> None:
        self.now = 0.0
        self.caller = caller
        self.logins = Sessions(lambda: self.now)
        host = SessionsHost(name="sessions.example", is_secure=True)
        self.openings = Openings(host, self.logins, clock=lambda: self.now, every_s=every_s)
        self.viewer = Viewer(caller, "alice")
        self.login = ""

    async def log_in(self) -> None:
        self.login = await self.logins.open(self.viewer)

    async def ticket(self) -> str:
        address = urlsplit(await self.openings.open(self.viewer, "team-a", "nb"))
        assert (address.scheme, address.netloc) == ("https", f"{LABEL}.sessions.example")
        return parse_qs(address.query)["ticket"][0]

    async def cookie(self) -> str:
        opening = self.openings.enter(await self.ticket(), LABEL)
        assert opening is not None
        return opening.cookie


@pytest.fixture
async def application() -> AsyncIterator[PlayedApplication]:
    async with listening(PlayedApplication()) as found:
        yield found


@pytest.fixture
async def desk(application: PlayedApplication) -> AsyncIterator[Desk]:
    found = Desk(caller_of(application))
    await found.log_in()
    yield found
    await found.openings.close_all()


async def test_a_ticket_is_good_once_for_its_session_and_half_a_minute(desk: Desk) -> None:
    ticket = await desk.ticket()
    assert desk.openings.enter(ticket, LABEL) is not None
    assert desk.openings.enter(ticket, LABEL) is None
    assert desk.openings.enter(await desk.ticket(), "nb-of-another") is None
    late = await desk.ticket()
    desk.now += TICKET_S
    assert desk.openings.enter(late, LABEL) is None


async def test_a_cookie_leads_to_its_session_alone(desk: Desk) -> None:
    cookie = await desk.cookie()
    found = desk.openings.find(cookie, LABEL)
    assert found is not None
    assert found.credentials == {"Authorization": f"token {TOKEN}"}
    assert desk.openings.find(cookie, "nb-of-another") is None
    assert desk.openings.find("guessed", LABEL) is None
    assert TOKEN not in repr(found)
    assert cookie not in repr(found)


async def test_a_session_that_is_opened_again_keeps_its_connections(desk: Desk) -> None:
    assert await desk.cookie() == await desk.cookie()


async def test_who_logs_out_has_nothing_open(desk: Desk) -> None:
    cookie = await desk.cookie()
    await desk.logins.close(desk.login)
    assert desk.openings.find(cookie, LABEL) is None


async def test_use_of_a_session_is_use_of_the_login(desk: Desk) -> None:
    cookie = await desk.cookie()
    for _ in range(3):
        desk.now += IDLE_S - 1
        assert desk.openings.find(cookie, LABEL) is not None
    desk.now += IDLE_S + 1
    assert desk.openings.find(cookie, LABEL) is None


def _revoked(caller: FakeCaller) -> None:
    caller.forwards = False


def _unknown(caller: FakeCaller) -> None:
    caller.token_ended = True


def _stopped(caller: FakeCaller) -> None:
    caller.kube.put(kube.SESSIONS, session(phase="Suspending"))


def _again(caller: FakeCaller) -> None:
    caller.kube.put(kube.SESSIONS, session(attempt=2))


@pytest.mark.parametrize("change", [_revoked, _unknown, _stopped, _again], ids=lambda change: change.__name__[1:])
async def test_an_opening_ends_with_the_right_the_token_or_the_session(
    application: PlayedApplication, change: Callable[[FakeCaller], None]
) -> None:
    desk = Desk(caller_of(application), every_s=0.0)
    await desk.log_in()
    opening = desk.openings.enter(await desk.ticket(), LABEL)
    assert opening is not None
    assert opening.watch is not None
    watch = opening.watch
    change(desk.caller)
    await asyncio.wait_for(watch, 5)
    assert opening.http.closed
    assert desk.openings.find(opening.cookie, LABEL) is None


async def test_an_api_server_that_does_not_answer_ends_nothing(application: PlayedApplication) -> None:
    desk = Desk(caller_of(application), every_s=0.0)
    await desk.log_in()
    opening = desk.openings.enter(await desk.ticket(), LABEL)
    assert opening is not None
    asked = asyncio.Event()

    async def away(*_: object) -> None:
        asked.set()
        raise UnreachableError("it restarts")

    desk.caller.review = away  # type: ignore[assignment, method-assign]
    await asyncio.wait_for(asked.wait(), 5)
    assert desk.openings.find(opening.cookie, LABEL) is not None
    await desk.openings.close_all()


@pytest.mark.parametrize(
    ("document", "forwards", "why"),
    [
        (session(phase="Pending"), True, "it is Pending"),
        (session("Shell", port=None), True, "a shell has no page: kubectl cotenant session open team-a/nb"),
        (session(attempt=2), True, "its pod does not run"),
        (session(), False, "you may not forward ports of pods in team-a"),
    ],
    ids=["it waits", "a shell", "another attempt", "no right"],
)
async def test_what_cannot_be_opened_says_why(
    application: PlayedApplication, document: kube.Document, forwards: bool, why: str
) -> None:
    desk = Desk(caller_of(application, document))
    desk.caller.forwards = forwards
    await desk.log_in()
    with pytest.raises(DeniedError, match=why):
        await desk.ticket()
    assert not [call for call in desk.caller.calls if call.startswith("EXEC")], "no token was read"


async def test_an_application_that_starts_again_is_waited_for(
    application: PlayedApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "EVERY_S", 0.0)
    desk = Desk(caller_of(application))
    await desk.log_in()
    there, missing = desk.caller.output_of, [True] * 3

    async def output_of(namespace: str, pod: str, command: Sequence[str]) -> str:
        if missing:
            missing.pop()
            raise UnreachableError(f"cat: {command[1]}: No such file or directory")
        return await there(namespace, pod, command)

    desk.caller.output_of = output_of  # type: ignore[method-assign]
    assert await desk.ticket()
    missing.extend([True] * target.TRIES)
    with pytest.raises(DeniedError, match="has not started yet: open it again"):
        await desk.ticket()
    await desk.openings.close_all()


async def test_a_pod_that_is_being_deleted_is_not_opened(application: PlayedApplication) -> None:
    desk = Desk(caller_of(application))
    leaving = pod()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    desk.caller.kube.put(kube.PODS, leaving)
    await desk.log_in()
    with pytest.raises(DeniedError, match="does not run now"):
        await desk.ticket()


@pytest.mark.parametrize("written", [{"token": "x\r\nX-Evil: 1"}, {"token": 7}, [], {}], ids=str)
async def test_a_file_that_a_tenant_has_written_adds_no_header(application: PlayedApplication, written: object) -> None:
    desk = Desk(caller_of(application))
    desk.caller.pods["nb-1"] = application.port, written
    await desk.log_in()
    with pytest.raises(DeniedError, match="is not what its application wrote"):
        await desk.ticket()


async def test_code_server_is_logged_in_to_by_its_password(application: PlayedApplication) -> None:
    desk = Desk(caller_of(application, session("CodeServer")))
    await desk.log_in()
    with pytest.raises(UnreachableError, match="does not take its password"):
        await desk.ticket()
    application.password = TOKEN
    opening = desk.openings.enter(await desk.ticket(), LABEL)
    assert opening is not None
    assert opening.credentials == {"Cookie": "code-server-session=let-in"}
    await desk.openings.close_all()


async def test_openings_of_one_login_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPENINGS_OF_ONE", 2)
    cookies = []
    for number in range(3):
        desk.caller.kube.put(kube.SESSIONS, session(attempt=number + 1))
        desk.caller.kube.put(kube.PODS, pod(number + 1))
        desk.caller.pods[f"nb-{number + 1}"] = desk.caller.pods["nb-1"]
        cookies.append(await desk.cookie())
    assert [desk.openings.find(cookie, LABEL) is not None for cookie in cookies] == [False, True, True]
