"""The HTTP server of the kubelet's probes."""

from __future__ import annotations

import logging
import socket

import aiohttp
import pytest

from cotenant.controller.telemetry import probes


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


async def fetch(*paths: str, alive: str = "", ready: str = "") -> list[tuple[int, str]]:
    """Status and text of each."""
    port, found = free_port(), []
    runner = await probes.serve("127.0.0.1", port, alive=lambda: alive, ready=lambda: ready)
    try:
        async with aiohttp.ClientSession() as session:
            for path in paths:
                async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                    found.append((answer.status, await answer.text()))
    finally:
        await runner.cleanup()
    return found


async def test_without_a_problem_a_probe_passes() -> None:
    assert await fetch("/healthz", "/readyz") == [(200, "ok"), (200, "ok")]


async def test_what_is_not_alive_may_be_ready() -> None:
    assert await fetch("/healthz", "/readyz", alive="the loop hangs") == [(503, "not alive"), (200, "ok")]


async def test_what_is_not_ready_yet_is_alive() -> None:
    assert await fetch("/healthz", "/readyz", ready="not listed yet") == [(200, "ok"), (503, "not ready")]


async def test_the_problem_is_for_the_log_alone_and_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        answers = await fetch("/healthz", "/healthz", alive="the loop hangs")
    assert (answers, caplog.messages) == ([(503, "not alive")] * 2, ["not alive: the loop hangs"])


async def test_nothing_else_is_served() -> None:
    assert await fetch("/", "/metrics") == [(404, "404: Not Found")] * 2
