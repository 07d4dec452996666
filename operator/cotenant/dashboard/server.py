"""The HTTP server of the dashboard: pages, their updates, login and logout, the way to a session.

It changes one thing in a cluster: the answer to a QuotaRequest, sent by a form with the token of a person who may
approve it. Every response forbids what a page does not need: scripts, styles and images come from here alone, no page
is framed or cached, and no address leaks to another site. Tokens are in no log, and no access log is written.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from cotenant.controller.client.kube import UnreachableError
from cotenant.dashboard import updates
from cotenant.dashboard.access.entrances import Entrances, EntryError
from cotenant.dashboard.access.sessions import Sessions, Viewer
from cotenant.dashboard.job_page import job_page
from cotenant.dashboard.markup import asset, markup
from cotenant.dashboard.node_page import node_page
from cotenant.dashboard.opened.host import FROM_HERE
from cotenant.dashboard.opened.openings import Openings
from cotenant.dashboard.pages import PAGES, Page
from cotenant.dashboard.reading.caller_client import DeniedError
from cotenant.dashboard.request_page import answer, request_page
from cotenant.dashboard.session_page import session_page
from cotenant.dashboard.views.wish import Wish

FIRST_S: Final = 0.1
"""The first bytes wait at most this long for what is read. Later values come as an update."""
BODY_BYTES: Final = 16 * 1024
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " frame-ancestors 'none'; form-action 'self'"
)
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer` browsers send forms with `Origin: null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
REQUEST: Final = "/requests/{namespace:[-a-z0-9]+}/{name:[-a-z0-9]+}"
"""Names as the API server accepts them. They become part of the path that an answer is written to."""
SESSION: Final = "/sessions/{namespace:[-a-z0-9]+}/{name:[-a-z0-9]+}"
COOKIE: Final = "cotenant-session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    sessions: Sessions
    entrances: Entrances
    is_secure: bool
    """True if served over TLS. Then the cookie is sent over TLS alone, and its name has the prefix that guarantees it.
    """
    openings: Openings | None = None
    """The openings of sessions. If absent, sessions cannot be opened here."""
    clock: Callable[[], float] = time.time

    def application(self) -> web.Application:
        app = web.Application(client_max_size=BODY_BYTES, middlewares=[_guarded(self._headers())])
        app.router.add_get("/healthz", _health)
        app.router.add_get("/assets/{name}", _asset)
        app.router.add_get("/login", self._login_page)
        app.router.add_post("/login", self._log_in)
        app.router.add_post("/logout", self._log_out)
        for page in PAGES:
            app.router.add_get(page.path, self._page(page))
        app.router.add_get("/jobs/{namespace}/{name}", self._job)
        app.router.add_get(REQUEST, self._request)
        app.router.add_post(REQUEST, self._answer)
        app.router.add_get(SESSION, self._session)
        app.router.add_post(SESSION, self._open)
        app.router.add_get("/nodes/{name}", self._node)
        app.on_shutdown.append(self._end)
        return app

    def _headers(self) -> dict[str, str]:
        """The headers of every response. A form may lead to a session, so the policy for forms allows the sessions'
        hosts.
        """
        forms = f" {self.openings.host.origin('*')}" if self.openings is not None else ""
        return HEADERS | {"Content-Security-Policy": POLICY + forms}

    def _page(self, page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def show(request: web.Request) -> web.StreamResponse:
            return await self._show(request, page)

        return show

    async def _job(self, request: web.Request) -> web.StreamResponse:
        return await self._show(request, job_page(request.match_info["namespace"], request.match_info["name"]))

    async def _request(self, request: web.Request) -> web.StreamResponse:
        return await self._show(request, request_page(request.match_info["namespace"], request.match_info["name"]))

    async def _answer(self, request: web.Request) -> web.Response:
        _refuse_other_origins(request)
        try:
            viewer = await self._viewer(request)
            await answer(viewer, request.match_info["namespace"], request.match_info["name"], await request.post())
        except (EntryError, UnreachableError) as error:
            return self._refused(*_refusal(error))
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        return web.Response(status=303, headers={"Location": request.path})

    async def _session(self, request: web.Request) -> web.StreamResponse:
        page = session_page(**request.match_info, is_served=self.openings is not None)
        return await self._show(request, page)

    async def _open(self, request: web.Request) -> web.Response:
        _refuse_other_origins(request)
        try:
            viewer = await self._viewer(request)
        except (EntryError, UnreachableError) as error:
            return self._refused(*_refusal(error))
        if self.openings is None:
            raise web.HTTPNotFound(text="sessions are not opened here")
        try:
            location = await self.openings.open(viewer, **request.match_info)
            viewer.refused_form = ("", "")
        except (DeniedError, UnreachableError) as error:
            location = request.path
            viewer.refused_form = (request.path, str(error))
        return web.Response(status=303, headers={"Location": location})

    async def _node(self, request: web.Request) -> web.StreamResponse:
        return await self._show(request, node_page(request.match_info["name"]))

    async def _show(self, request: web.Request, page: Page) -> web.StreamResponse:
        try:
            viewer = await self._viewer(request)
        except (EntryError, UnreachableError) as error:
            status, message = _refusal(error)
            return self._refused(status, f"The proxy in front passed on a token. {message[:1].upper()}{message[1:]}")
        wish = Wish.read(request.query)
        drawing = updates.Drawing(viewer, page, wish, self.clock)
        if "live" in request.query:
            return await updates.stream(request, drawing, lambda: self.sessions.keep(viewer))
        is_whole = await drawing.settle(FIRST_S)
        if viewer.is_refused:
            if self.entrances.is_by_proxy(request.remote, request.headers):
                return self._refused(403, "The API server does not know the token any more that the proxy passed on.")
            raise web.HTTPSeeOther("/login")
        context = {
            "pages": PAGES, "page": page, "wish": wish, "user": viewer.user, "home": viewer.namespace,
            "main": drawing.draw(), "is_whole": is_whole,
        }  # fmt: skip
        response = _html("page.html", context)
        response.enable_compression()
        return response

    async def _viewer(self, request: web.Request) -> Viewer:
        """The viewer of a request. Raises a redirect to the login page; EntryError, UnreachableError for a trusted
        proxy's token.
        """
        found = self.sessions.find(request.cookies.get(self._cookie, ""))
        found = found or await self.entrances.by_proxy(request.remote, request.headers)
        if found is None:
            raise web.HTTPUnauthorized() if "live" in request.query else web.HTTPSeeOther("/login")
        return found

    async def _login_page(self, request: web.Request) -> web.Response:
        if code := request.query.get("code", ""):
            return await self._enter(self.entrances.by_code(code))
        return _html("login.html", {"message": "", "takes_tokens": self.entrances.takes_tokens})

    async def _log_in(self, request: web.Request) -> web.Response:
        _refuse_other_origins(request)
        form = await request.post()
        token, namespace = form.get("token"), form.get("namespace")
        if not isinstance(token, str) or not isinstance(namespace, str | None):
            raise web.HTTPBadRequest(text="a login has a token")
        return await self._enter(self.entrances.by_token(token, (namespace or "").strip()[:253]))

    async def _enter(self, entrance: Awaitable[str]) -> web.Response:
        try:
            cookie = await entrance
        except (EntryError, UnreachableError) as error:
            return self._refused(*_refusal(error))
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(self._cookie, cookie, httponly=True, secure=self.is_secure, samesite="Strict", path="/")
        return response

    def _refused(self, status: int, message: str) -> web.Response:
        return _html("login.html", {"message": message, "takes_tokens": self.entrances.takes_tokens}, status)

    async def _log_out(self, request: web.Request) -> web.Response:
        _refuse_other_origins(request)
        await self.sessions.close(request.cookies.get(self._cookie, ""))
        response = web.Response(status=303, headers={"Location": "/login"})
        response.del_cookie(self._cookie, path="/", secure=self.is_secure, httponly=True, samesite="Strict")
        return response

    @property
    def _cookie(self) -> str:
        return f"__Host-{COOKIE}" if self.is_secure else COOKIE

    async def _end(self, _: web.Application) -> None:
        await self.sessions.close_all()


def _guarded(headers: Mapping[str, str]) -> Middleware:
    """A middleware that adds these headers to every response."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(headers)
            raise
        if not response.prepared:
            response.headers.update(headers)
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    return guard


def _refuse_other_origins(request: web.Request) -> None:
    """Raises HTTPForbidden if a form was sent from a page of another server.

    Over TLS browsers say so themselves (`Sec-Fetch-Site`). `Origin` is compared where they do not: a proxy in front may
    have written another `Host`.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is None and origin is not None:
        site = "same-origin" if urlsplit(origin).netloc == request.host else "cross-site"
    if site is not None and site not in FROM_HERE:
        raise web.HTTPForbidden(text="this form was sent from another site")


def _refusal(error: EntryError | UnreachableError) -> tuple[int, str]:
    """Status and sentence for a login that failed."""
    if isinstance(error, EntryError):
        return 403, str(error)
    return 503, f"the API server does not say who this is: {error}"


async def _health(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _asset(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    try:
        body = asset(name)
    except KeyError:
        raise web.HTTPNotFound() from None
    kept = "public, max-age=31536000, immutable" if "v" in request.query else "no-cache"
    return web.Response(
        body=body, content_type=TYPES[name.rpartition(".")[2]], charset="utf-8", headers={"Cache-Control": kept}
    )


def _html(template: str, context: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(text=markup(template, context), content_type="text/html", charset="utf-8", status=status)
