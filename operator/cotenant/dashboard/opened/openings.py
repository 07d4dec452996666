"""Openings of sessions: one-time tickets, cookies, and the end when the right to a session ends.

Openings are kept in memory, limited in number. They use the credentials of the person's login (`Viewer`) and end with
it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import aiohttp

from cotenant.api.resources.sessions.session import Application
from cotenant.controller.client.kube import UnreachableError
from cotenant.dashboard.access.sessions import Sessions, Viewer, digest_of
from cotenant.dashboard.opened.connector import PodConnector
from cotenant.dashboard.opened.headers import OwnCookies
from cotenant.dashboard.opened.host import SessionsHost, label_of
from cotenant.dashboard.opened.target import SessionTarget, find_target, require_same
from cotenant.dashboard.reading.caller_client import DeniedError

TICKET_S: Final = 30.0
CHECK_S: Final = 60.0
"""Seconds between two checks that the session runs and the person may reach it."""
OPENINGS_OF_ONE: Final = 8
"""At most this many openings per login. A new one ends the oldest."""
OPENINGS_MAX: Final = 200
SOCKETS_MAX: Final = 24
"""At most this many WebSockets per opening at one time. A notebook has one per kernel and terminal."""
WAIT_S: Final = 30.0
"""Seconds to wait for a connection to the pod."""
ENTER: Final = "/.cotenant/enter"
COOKIE: Final = "cotenant-opened"


@dataclass(eq=False, slots=True)
class Opening:
    """One session, opened by one person."""

    viewer: Viewer
    target: SessionTarget
    label: str
    cookie: str = field(repr=False)
    credentials: Mapping[str, str] = field(repr=False)
    """Headers by which the application lets a person in."""
    http: aiohttp.ClientSession
    """A client whose requests all go to the application, whatever host an address names."""
    cookies: OwnCookies
    sockets: int = 0
    watch: asyncio.Task[None] | None = None


class Openings:
    def __init__(
        self,
        host: SessionsHost,
        sessions: Sessions,
        *,
        clock: Callable[[], float] = time.monotonic,
        every_s: float = CHECK_S,
    ) -> None:
        """The openings. `sessions`: the logins. `clock`: seconds that never go back."""
        self.host, self._sessions, self._clock, self._every_s = host, sessions, clock, every_s
        self._openings: dict[bytes, Opening] = {}
        self._tickets: dict[bytes, tuple[Opening, float]] = {}

    @property
    def cookie_name(self) -> str:
        """Name of the cookie. Over TLS it has the prefix with which browsers accept it from this host alone."""
        return f"__Host-{COOKIE}" if self.host.is_secure else COOKIE

    async def open(self, viewer: Viewer, namespace: str, name: str) -> str:
        """Open the session. Returns the one-time address for a browser. Raises DeniedError, UnreachableError."""
        target = await find_target(viewer.client, namespace, name)
        opening = self._known(viewer, target) or await self._new(viewer, target)
        now = self._clock()
        self._tickets = {key: held for key, held in self._tickets.items() if held[1] > now and held[0] is not opening}
        ticket = secrets.token_urlsafe(32)
        self._tickets[digest_of(ticket)] = opening, now + TICKET_S
        return f"{self.host.origin(opening.label)}{ENTER}?ticket={ticket}"

    def enter(self, ticket: str, label: str) -> Opening | None:
        """Exchange the ticket for this label's opening."""
        opening, ends_at = self._tickets.pop(digest_of(ticket), (None, 0.0))
        if opening is None or ends_at <= self._clock() or opening.label != label:
            return None
        return opening if self._is_open(opening) else None

    def find(self, cookie: str, label: str) -> Opening | None:
        """The opening of this label with this cookie. It also notes that the person uses it."""
        opening = self._openings.get(digest_of(cookie)) if cookie else None
        if opening is None or opening.label != label or not self._is_open(opening):
            return None
        return opening if self._sessions.keep(opening.viewer) else None

    async def close_all(self) -> None:
        for opening in list(self._openings.values()):
            await self._close(opening)

    def _is_open(self, opening: Opening) -> bool:
        return digest_of(opening.cookie) in self._openings and self._sessions.holds(opening.viewer)

    def _known(self, viewer: Viewer, target: SessionTarget) -> Opening | None:
        return next((one for one in self._openings.values() if one.viewer is viewer and one.target == target), None)

    async def _new(self, viewer: Viewer, target: SessionTarget) -> Opening:
        own = [one for one in self._openings.values() if one.viewer is viewer]
        surplus = [*own[: max(0, len(own) - OPENINGS_OF_ONE + 1)]]
        surplus += list(self._openings.values())[: max(0, len(self._openings) - OPENINGS_MAX + 1)]
        for one in surplus:
            await self._close(one)
        connect = partial(viewer.client.forward, target.namespace, target.pod, target.port)
        http = aiohttp.ClientSession(
            connector=PodConnector(connect),
            timeout=aiohttp.ClientTimeout(total=None, connect=WAIT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        try:
            credentials = await credentials_of(target, http)
        except BaseException:
            await http.close()
            raise
        opening = Opening(
            viewer=viewer,
            target=target,
            label=label_of(target.namespace, target.name, target.uid),
            cookie=secrets.token_urlsafe(32),
            credentials=credentials,
            http=http,
            cookies=OwnCookies(self.cookie_name),
        )
        self._openings[digest_of(opening.cookie)] = opening
        opening.watch = asyncio.create_task(self._watch(opening))
        return opening

    async def _watch(self, opening: Opening) -> None:
        """Close the opening when the session, the right to it or the login ends."""
        try:
            goes_on = True
            while goes_on:
                await asyncio.sleep(self._every_s)
                goes_on = await self._goes_on(opening)
        finally:
            opening.watch = None
            await self._close(opening)

    async def _goes_on(self, opening: Opening) -> bool:
        """False if the person may not keep it open.

        If the API server does not answer, the opening stays: every request of the browser goes through the API server
        anyway.
        """
        if not (self._sessions.keep if opening.sockets else self._sessions.holds)(opening.viewer):
            return False
        try:
            await require_same(opening.viewer.client, opening.target)
        except DeniedError:
            return False
        except UnreachableError:
            pass
        return True

    async def _close(self, opening: Opening) -> None:
        """Close the opening and all its connections."""
        self._openings.pop(digest_of(opening.cookie), None)
        if opening.watch is not None:
            opening.watch.cancel()
        await opening.http.close()


async def credentials_of(target: SessionTarget, http: aiohttp.ClientSession) -> dict[str, str]:
    """Headers by which the application lets a person in. Raises UnreachableError."""
    if target.application == Application.JUPYTER_LAB:
        return {"Authorization": f"token {target.token}"}
    if target.application != Application.CODE_SERVER:
        return {}
    form, there = {"password": target.token}, f"{target.address}{target.path}login"
    try:
        async with http.post(there, data=form, allow_redirects=False) as answer:
            pairs = [line.partition(";")[0] for line in answer.headers.getall("Set-Cookie", [])]
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UnreachableError(f"code-server does not answer: {type(error).__name__}") from error
    if not pairs:
        raise UnreachableError("code-server does not take its password")
    return {"Cookie": "; ".join(pairs)}
