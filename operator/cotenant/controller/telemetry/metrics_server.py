"""HTTP server of `/metrics` on a port of its own, over TLS if there is a certificate, for authorized readers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from cotenant.controller.telemetry.bounded_site import serve_bounded
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.serving.certificate import ServingCertificate
from cotenant.serving.metrics_access import Access

AskAccess = Callable[[str], Awaitable[Access]]
"""Authorization header → answer."""


async def serve(
    address: tuple[str, int], metrics: Metrics, *, access: AskAccess | None, certificate: ServingCertificate | None
) -> web.AppRunner:
    """Serve until the returned runner is cleaned up. Without `access` everybody may read."""

    async def scrape(request: web.Request) -> web.Response:
        if certificate is not None:
            certificate.refresh()
        if access is not None:
            answer = await access(request.headers.get("Authorization", ""))
            if answer is not Access.ALLOWED:
                return web.Response(text=answer.sentence, status=answer, headers={"WWW-Authenticate": "Bearer"})
        return web.Response(
            body=metrics.exposition(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    app = web.Application(client_max_size=0)
    app.router.add_get("/metrics", scrape)
    return await serve_bounded(app, address, tls=certificate.context if certificate is not None else None)
