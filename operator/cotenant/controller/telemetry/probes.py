"""HTTP server of `/healthz`, `/readyz` and `/metrics` on one port, for the kubelet and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from cotenant.controller.telemetry.metrics import Metrics

Check = Callable[[], str]
"""Returns the problem, or an empty string when there is none."""


async def serve(host: str, port: int, *, alive: Check, ready: Check, metrics: Metrics) -> web.AppRunner:
    """Serve until the returned runner is cleaned up."""

    def answer(check: Check) -> Callable[[web.Request], object]:
        async def respond(_: web.Request) -> web.Response:
            problem = check()
            return web.Response(text=problem or "ok", status=503 if problem else 200)

        return respond

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(
            body=metrics.exposition(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    app = web.Application()
    app.router.add_get("/healthz", answer(alive))  # type: ignore[arg-type]
    app.router.add_get("/readyz", answer(ready))  # type: ignore[arg-type]
    app.router.add_get("/metrics", scrape)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
