"""HTTPS server of the API of questions. Every replica listens; one that does not lead answers 503.

A caller without the aggregator's certificate is refused with 401, whatever its headers say. The API server has
authorized the user before it forwards a request. The user is checked once more here, as in every extension API server.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Final

from aiohttp import web

from cotenant import names
from cotenant.controller.client.kube import CONFIG_MAPS, Kube, UnreachableError
from cotenant.controller.query_api import documents
from cotenant.controller.query_api.access import CallerAccess, UnknownAccessError
from cotenant.controller.query_api.answers import Answers
from cotenant.controller.query_api.front_proxy import CONFIG_MAP, NAMESPACE, Caller, FrontProxy
from cotenant.controller.query_api.proposals import ProposalError
from cotenant.controller.query_api.questions import (
    ElsewhereError,
    NoSituationError,
    NotFoundError,
    NotNowError,
    TooManyQuestionsError,
)
from cotenant.controller.query_api.record_answers import RecordAnswers
from cotenant.serving.certificate import ServingCertificate
from cotenant.serving.sockets import listening

log = logging.getLogger(__name__)

BODY_BYTES: Final = 256 * 1024
LOOK_S: Final = 60.0
"""Pause between two reads of the aggregator's authority, which is renewed from time to time."""
ROOT: Final = f"/apis/{documents.API_VERSION}"
_Answer = Callable[[web.Request, Caller], Awaitable[documents.Document | web.StreamResponse]]
_FAILURES: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (NotFoundError, 404, "NotFound"),
    (NotNowError, 400, "BadRequest"),
    (ElsewhereError, 502, "BadGateway"),
    (ProposalError, 422, "Invalid"),
    (web.HTTPRequestEntityTooLarge, 413, "RequestEntityTooLarge"),
    (TooManyQuestionsError, 429, "TooManyRequests"),
    (NoSituationError, 503, "ServiceUnavailable"),
    (UnknownAccessError, 503, "ServiceUnavailable"),
    (TimeoutError, 504, "Timeout"),
)


@dataclass(frozen=True, slots=True)
class Route:
    """A question: its method and path, the right that it takes, and who answers."""

    method: str
    path: str
    verb: str
    resource: str
    answer: _Answer


@dataclass(slots=True, kw_only=True)
class QueryServer:
    kube: Kube
    """Client without a fence. It only creates reviews."""
    answers: Answers
    records: RecordAnswers
    access: CallerAccess
    address: tuple[str, int]
    certificate: Path
    more: Sequence[Route] = ()
    """Questions that others answer."""
    _proxy: FrontProxy | None = None
    _serving: ServingCertificate | None = None
    _runner: web.AppRunner | None = None

    async def run(self) -> None:
        """Listen while the task lives. Listen anew if the aggregator's authority changes."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(LOOK_S if self._runner is not None else 1.0)
        finally:
            await self.close()

    async def look(self) -> None:
        """Read who the aggregator is, and listen for it."""
        if self._serving is not None:
            self._serving.refresh()
        try:
            found = await self.kube.get(CONFIG_MAPS, CONFIG_MAP, NAMESPACE)
        except UnreachableError as error:
            log.warning("who passes questions on is not known yet: %s", error)
            return
        proxy = FrontProxy.of(found.document.get("data") or {}) if found.done else None
        if proxy is None or proxy == self._proxy:
            return
        try:
            context = self._context(proxy)
        except (OSError, ssl.SSLError) as error:
            log.warning("questions are not answered: the certificate in %s: %s", self.certificate, error)
            return
        await self.close()
        runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._proxy, self._runner = proxy, runner
        try:
            await web.SockSite(runner, listening(self.address), ssl_context=context).start()
        except OSError as error:  # it ends nothing of what decides
            log.warning("questions are not answered: %s", error)
            await self.close()
            self._proxy = None

    def _context(self, proxy: FrontProxy) -> ssl.SSLContext:
        """Ask for a client certificate without demanding one, so that a caller without it gets an error message."""
        serving = ServingCertificate(self.certificate)
        serving.context.verify_mode = ssl.CERT_OPTIONAL
        serving.context.load_verify_locations(cadata=proxy.authority)
        self._serving = serving
        return serving.context

    async def close(self) -> None:
        """Stop answering."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _application(self) -> web.Application:
        app = web.Application(client_max_size=BODY_BYTES)
        app.router.add_get(ROOT, self._respond(_discover))
        own, answers, records = "/namespaces/{namespace}", self.answers, self.records
        routes = (
            ("GET", own + "/explanations/{name}", "get", "explanations", answers.explanation),
            ("GET", own + "/explanations", "list", "explanations", answers.explanations),
            ("GET", "/explanations", "list", "explanations", answers.explanations),
            ("GET", own + "/offers", "list", "offers", answers.offers),
            ("GET", "/queuetrees", "list", "queuetrees", answers.queue_trees),
            ("GET", "/nodeneeds", "list", "nodeneeds", answers.node_needs),
            ("GET", own + "/runs", "list", "runs", records.runs),
            ("GET", own + "/runs/{name}", "get", "runs", records.run),
            ("GET", "/runs", "list", "runs", records.runs),
            ("GET", own + "/advices", "list", "advices", records.advices),
            ("GET", own + "/advices/{name}", "get", "advices", records.advice),
            ("GET", own + "/showbacks", "list", "showbacks", records.showbacks),
            ("GET", "/showbacks", "list", "showbacks", records.showbacks),
            ("GET", "/decisions", "list", "decisions", records.decisions),
            ("GET", "/capsules", "list", "capsules", records.capsules),
            ("GET", "/capsules/{name}", "get", "capsules", records.capsule),
            ("POST", "/clusterwhatifs", "create", "clusterwhatifs", answers.what_if_cluster),
            ("POST", own + "/whatifs", "create", "whatifs", answers.what_if),
        )
        for one in (*starmap(self._of_leader, routes), *self.more):
            app.router.add_route(one.method, ROOT + one.path, self._respond(self._authorised(one)))
        app.router.add_route("*", "/{path:.*}", self._respond(_unknown))
        return app

    def _respond(self, answer: _Answer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Answer the user that the aggregator names. Every failure becomes a Status."""

        async def respond(request: web.Request) -> web.StreamResponse:
            if self._serving is not None:
                self._serving.refresh()
            certificate = request.transport.get_extra_info("peercert") if request.transport else None
            caller = self._proxy.caller(certificate, request.headers) if self._proxy else None
            if caller is None:
                return _failed(401, "Unauthorized", "ask the API server: only its aggregator is answered here")
            try:
                found = await answer(request, caller)
                return found if isinstance(found, web.StreamResponse) else web.json_response(found)
            except _ForbiddenError as error:
                return _failed(403, "Forbidden", str(error))
            except tuple(kind for kind, _, _ in _FAILURES) as error:
                code, reason = next((code, reason) for kind, code, reason in _FAILURES if isinstance(error, kind))
                return _failed(code, reason, str(error) or "the answer took too long; ask again")
            except Exception:
                log.exception("a question was not answered: %s %s", request.method, request.path)
                return _failed(500, "InternalError", "the question was not answered; the operator's log has the reason")

        return respond

    def _of_leader(self, method: str, path: str, verb: str, resource: str, answer: _Answer) -> Route:
        """The route of a question about the last plan or about records: only the leader has them."""

        async def asked(request: web.Request, caller: Caller) -> documents.Document | web.StreamResponse:
            if not self.answers.leadership.held:
                raise NoSituationError("the operator is changing its leader; ask again in some seconds")
            return await answer(request, caller)

        return Route(method, path, verb, resource, asked)

    def _authorised(self, route: Route) -> _Answer:
        async def checked(request: web.Request, caller: Caller) -> documents.Document | web.StreamResponse:
            namespace = request.match_info.get("namespace", "")
            if not await self.access.may(caller, route.verb, route.resource, namespace):
                where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
                what = f'"{route.resource}" in API group "{names.QUERY_GROUP}"'
                raise _ForbiddenError(f'User "{caller.user}" cannot {route.verb} resource {what}{where}')
            return await route.answer(request, caller)

        return checked


class _ForbiddenError(RuntimeError):
    """The caller may not ask this."""


async def _discover(_: web.Request, __: Caller) -> documents.Document:
    return documents.discovery()


async def _unknown(request: web.Request, _: Caller) -> documents.Document:
    raise NotFoundError(f"there is no question at {request.method} {request.path}")


def _failed(code: int, reason: str, message: str) -> web.Response:
    headers = {"Retry-After": "2"} if code in {429, 503} else None
    return web.json_response(documents.failure(code, reason, message), status=code, headers=headers)
