"""The dashboard as a process: on loopback with the credentials of a kubeconfig, or in a pod without credentials."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiohttp import web

from cotenant.dashboard.access.entrances import Entrances, TrustedProxy, viewer_of
from cotenant.dashboard.access.sessions import Sessions, Viewer
from cotenant.dashboard.opened.gate import SessionGate
from cotenant.dashboard.opened.host import SessionsHost
from cotenant.dashboard.opened.openings import Openings
from cotenant.dashboard.reading.caller_client import CallerClient, token_of_caller
from cotenant.dashboard.server import Dashboard
from cotenant.sdk.kubeconfig import ApiServer
from cotenant.serving.certificate import ServingCertificate

LOOPBACK: Final = "127.0.0.1"
SWEEP_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInCluster:
    """Settings of a server for many people. `certificate`: a folder with `tls.crt` and `tls.key`."""

    api_server: str
    authority: Path
    """Certificates that signed the API server's certificate."""
    host: str
    """The address to listen on. If empty, all addresses of both IP families."""
    port: int
    certificate: Path
    proxy: TrustedProxy = field(default_factory=TrustedProxy)
    sessions_host: str = ""
    """Parent domain of the sessions' host names. If empty, sessions cannot be opened here."""
    sessions_port: int = 8444


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnServer:
    """Settings of a server for the person who starts it."""

    credentials: ApiServer
    namespace: str = ""
    """Shown first. If empty, all that the person may list."""
    home: str = ""
    """Shown if the person may not list all namespaces."""
    port: int = 0


async def serve_own(settings: OwnServer, told: Callable[[str], None]) -> None:
    """Serve one person on this machine.

    `told` gets the address, which is valid once. Other users of the machine can see the open port, but get no further
    than the login page.
    """
    code = secrets.token_urlsafe(32)
    sessions = Sessions(time.monotonic)

    async def own() -> Viewer:
        client = CallerClient(settings.credentials)
        try:
            return await viewer_of(client, settings.namespace, settings.home)
        except BaseException:
            await client.close()
            raise

    with socket.create_server((LOOPBACK, 0)) as listening:
        host = SessionsHost(name=f"localhost:{listening.getsockname()[1]}", is_secure=False)
        openings = Openings(host, sessions)
        entrances = Entrances(sessions, own=own, code=code)
        dashboard = Dashboard(sessions=sessions, entrances=entrances, is_secure=False, openings=openings)
        runner = await _runner(dashboard.application())
        gate = await _runner(SessionGate(openings=openings).application())
        try:
            await web.TCPSite(runner, LOOPBACK, settings.port).start()
            await web.SockSite(gate, listening).start()
            told(f"http://{LOOPBACK}:{runner.addresses[0][1]}/login?code={code}")
            await _sweep(sessions)
        finally:
            await gate.cleanup()
            await runner.cleanup()


async def serve_cluster(settings: ServerInCluster) -> None:
    """Serve everyone who shows a token, over TLS."""
    sessions = Sessions(time.monotonic)

    def client_of(token: str) -> CallerClient:
        return CallerClient(token_of_caller(settings.api_server, settings.authority, token))

    entrances = Entrances(sessions, client_of=client_of, proxy=settings.proxy)
    serving = ServingCertificate(settings.certificate, may_come_later=True)
    serving.context.minimum_version = ssl.TLSVersion.TLSv1_2
    openings = None
    if settings.sessions_host:
        openings = Openings(SessionsHost(name=settings.sessions_host, is_secure=True), sessions)
    dashboard = Dashboard(sessions=sessions, entrances=entrances, is_secure=True, openings=openings)
    runners = {settings.port: await _runner(dashboard.application())}
    if openings is not None:
        gate = SessionGate(openings=openings, hidden=settings.proxy.header)
        runners[settings.sessions_port] = await _runner(gate.application())
    fresh = asyncio.create_task(serving.keep_fresh())
    try:
        for port, runner in runners.items():
            await web.TCPSite(runner, settings.host or None, port, ssl_context=serving.context).start()
        await _sweep(sessions, serving.refresh)
    finally:
        fresh.cancel()
        for runner in reversed(runners.values()):
            await runner.cleanup()


async def _runner(application: web.Application) -> web.AppRunner:
    """A server without an access log, because addresses contain tenants' names and one contains the code.

    If a reader leaves, the updates for them end.
    """
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    return runner


async def _sweep(sessions: Sessions, besides: Callable[[], None] = lambda: None) -> None:
    while True:
        await asyncio.sleep(SWEEP_S)
        await sessions.sweep()
        besides()
