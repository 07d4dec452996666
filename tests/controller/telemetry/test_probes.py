"""The HTTP server of the kubelet's probes and of Prometheus."""

from __future__ import annotations

import socket

import aiohttp
import pytest

from cotenant.controller.telemetry import probes
from cotenant.controller.telemetry.metrics import Metrics


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


async def fetch(path: str, *, alive: str = "", ready: str = "", metrics: Metrics | None = None) -> tuple[int, str, str]:
    """Status, text and content type."""
    port = free_port()
    runner = await probes.serve(
        "127.0.0.1", port, alive=lambda: alive, ready=lambda: ready, metrics=metrics or Metrics()
    )
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.text(), answer.headers["Content-Type"]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_without_a_problem_a_probe_passes(path: str) -> None:
    assert (await fetch(path))[:2] == (200, "ok")


@pytest.mark.parametrize(
    ("path", "answer"),
    [("/healthz", (503, "the loop hangs")), ("/readyz", (200, "ok"))],
)
async def test_what_is_not_alive_may_be_ready(path: str, answer: tuple[int, str]) -> None:
    assert (await fetch(path, alive="the loop hangs"))[:2] == answer


@pytest.mark.parametrize(
    ("path", "answer"),
    [("/healthz", (200, "ok")), ("/readyz", (503, "not listed yet"))],
)
async def test_what_is_not_ready_yet_is_alive(path: str, answer: tuple[int, str]) -> None:
    assert (await fetch(path, ready="not listed yet"))[:2] == answer


async def test_metrics_are_served_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.leader.set(1)
    code, text, content_type = await fetch("/metrics", metrics=metrics)
    assert (code, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "cotenant_leader 1.0" in text.splitlines()


async def test_nothing_else_is_served() -> None:
    assert (await fetch("/"))[0] == 404
