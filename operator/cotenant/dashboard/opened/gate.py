"""The HTTP server of opened sessions, on a port of its own: a ticket becomes a cookie, and a cookie leads to one
session.

Its only pages are short refusals. It writes no access log, because addresses contain tickets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp import web

from cotenant.controller.client.kube import UnreachableError
from cotenant.dashboard.opened.host import comes_from_elsewhere
from cotenant.dashboard.opened.openings import ENTER, Openings
from cotenant.dashboard.opened.passing import pass_on
from cotenant.dashboard.reading.caller_client import DeniedError

AGAIN: Final = "Open the session again from its page on the dashboard."
PLAIN: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGate:
    openings: Openings
    hidden: str = "Authorization"
    """Header in which a trusted proxy passes tokens. It is removed from every request to an application."""

    def application(self) -> web.Application:
        app = web.Application(middlewares=[_in_plain_words])
        app.router.add_route("*", "/{path:.*}", self._serve)
        app.on_shutdown.append(self._end)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        label = self.openings.host.label_in(request.host)
        if not label:
            raise web.HTTPNotFound(text="No session has this address.")
        if request.path == ENTER:
            return self._enter(request, label)
        opening = self.openings.find(request.cookies.get(self.openings.cookie_name, ""), label)
        if opening is None:
            raise web.HTTPUnauthorized(text=f"You have not opened this session here, or it is over. {AGAIN}")
        if comes_from_elsewhere(request.method, request.headers, self.openings.host.origin(label)):
            raise web.HTTPForbidden(text="This was asked for by a page of another origin.")
        return await pass_on(request, opening, self.hidden)

    def _enter(self, request: web.Request, label: str) -> web.Response:
        opening = self.openings.enter(request.query.get("ticket", ""), label)
        if opening is None:
            raise web.HTTPForbidden(text=f"This address was good once, for half a minute. {AGAIN}")
        response = web.Response(status=303, headers=PLAIN | {"Location": opening.target.first_page})
        response.set_cookie(
            self.openings.cookie_name,
            opening.cookie,
            path="/",
            httponly=True,
            secure=self.openings.host.is_secure,
            samesite="Lax",  # the first page is asked for on the way from the dashboard, which may be another site
        )
        return response

    async def _end(self, _: web.Application) -> None:
        await self.openings.close_all()


@web.middleware
async def _in_plain_words(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        error.headers.update(PLAIN)
        raise
    except (DeniedError, UnreachableError) as error:
        return _unreached(str(error))
    except (aiohttp.ClientError, TimeoutError) as error:
        return _unreached(type(error).__name__)


def _unreached(why: str) -> web.Response:
    return web.Response(
        status=502, text=f"The application of the session is not reached: {why}. {AGAIN}", headers=PLAIN
    )
