"""The operator as a process, as users run it, with its metrics and its CPU."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

PORT = 18477
POLL_S = 0.5
"""Interval at which the operator is asked for its metrics, in seconds: an answer is some milliseconds of its CPU."""


@asynccontextmanager
async def operator(kubeconfig: str) -> Any:
    """The operator as users run it: one process. Yields its id."""
    environment = os.environ | {"KUBECONFIG": kubeconfig}
    flags = ["--port", "0", "--host", "127.0.0.1", "--log-level", "warning"]
    flags += ["--metrics-port", str(PORT), "--metrics-readers", "everybody"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cotenant", "operator", *flags, env=environment
    )
    try:
        while await metric("cotenant_leader") != 1.0:
            if process.returncode is not None:
                raise SystemExit("the operator ended before it led")
            await asyncio.sleep(0.2)
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def scrape(port: int = PORT) -> str:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as response:
            return await response.text()
    except aiohttp.ClientError:
        return ""


def total(text: str, name: str, **labels: str) -> float:
    """The sum of all samples of a metric that carry these labels."""
    found = 0.0
    for line in text.splitlines():
        match = re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line)
        if match and match[1] == name:
            carried = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
            if all(carried.get(key) == value for key, value in labels.items()):
                found += float(match[3])
    return found


async def metric(name: str, **labels: str) -> float:
    return total(await scrape(), name, **labels)


def cpu_s(process: int) -> float:
    """CPU seconds that a process has used so far: comparable on a busy machine, where rates are not."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def until(name: str, wanted: float, deadline_s: float, **labels: str) -> float:
    """Monotonic time at which the operator's metric reached a value."""
    ends = time.monotonic() + deadline_s
    while await metric(name, **labels) < wanted:
        if time.monotonic() > ends:
            raise SystemExit(f"{name}{labels or ''} did not reach {wanted:.0f} within {deadline_s:.0f} s")
        await asyncio.sleep(POLL_S)
    return time.monotonic()


async def of_kueue(name: str, port: int) -> float:
    return total(await scrape(port), name)
