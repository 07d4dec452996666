"""HTTP server of `/healthz` and `/readyz` for the kubelet. Open to everybody, so it says no more than yes or no."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from cotenant.controller.telemetry.bounded_site import serve_bounded

log = logging.getLogger(__name__)

Check = Callable[[], str]
"""Returns the problem, or an empty string when there is none."""


async def serve(host: str, port: int, *, alive: Check, ready: Check) -> web.AppRunner:
    """Serve until the returned runner is cleaned up."""
    app = web.Application(client_max_size=0)
    app.router.add_get("/healthz", _answer("not alive", alive))
    app.router.add_get("/readyz", _answer("not ready", ready))
    return await serve_bounded(app, (host, port))


def _answer(trouble: str, check: Check) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Answer by `check`. Each new problem is logged once."""
    logged = ""

    async def respond(_: web.Request) -> web.StreamResponse:
        nonlocal logged
        problem = check()
        if problem and not logged:
            log.warning("%s: %s", trouble, problem)
        logged = problem
        return web.Response(text=trouble if problem else "ok", status=503 if problem else 200)

    return respond
