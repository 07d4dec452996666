"""The operator's `/metrics`: what Prometheus reads, who reads it, and over which certificate."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from cotenant.controller.telemetry import metrics_server
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.serving.certificate import ServingCertificate
from cotenant.serving.metrics_access import Access
from tests.controller.telemetry.test_probes import free_port
from tests.support.certificates import write_certificate


async def fetch(
    path: str = "/metrics",
    *,
    access: Callable[[str], Awaitable[Access]] | None = None,
    folder: Path | None = None,
) -> tuple[int, str, str]:
    """Status, text and content type."""
    port, metrics = free_port(), Metrics()
    metrics.leader.set(1)
    certificate = ServingCertificate(folder) if folder else None
    runner = await metrics_server.serve(("127.0.0.1", port), metrics, access=access, certificate=certificate)
    trust = ssl.create_default_context(cafile=str(folder / "tls.crt")) if folder else True
    url = f"{'https' if folder else 'http'}://localhost:{port}{path}"
    headers = {"Authorization": "Bearer t"}
    try:
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=trust) as answer:
            return answer.status, await answer.text(), answer.headers["Content-Type"]
    finally:
        await runner.cleanup()


async def test_metrics_are_served_as_prometheus_reads_them() -> None:
    code, text, content_type = await fetch()
    assert (code, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "cotenant_leader 1.0" in text.splitlines()


async def test_nothing_else_is_served() -> None:
    assert (await fetch("/"))[0] == 404


@pytest.mark.parametrize("access", list(Access), ids=lambda access: access.name)
async def test_only_who_may_read_is_answered(access: Access) -> None:
    asked: list[str] = []

    async def answer(header: str) -> Access:
        asked.append(header)
        return access

    code, text, _ = await fetch(access=answer)
    assert (code, asked, "cotenant_leader" in text) == (int(access), ["Bearer t"], access is Access.ALLOWED)


async def test_over_tls_with_the_certificate_of_the_folder(tmp_path: Path) -> None:
    write_certificate(tmp_path, "localhost")
    assert (await fetch(folder=tmp_path))[0] == 200
