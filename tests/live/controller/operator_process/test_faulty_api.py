"""The API server is slow, refuses, loses answers and cuts watches while 30 jobs come and go: nothing is lost."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.controller.operator_process.replicas import simulated_tenant
from tests.live.controller.operator_process.traffic import (
    GPUS,
    JOBS,
    NODES,
    all_succeeded,
    come_and_go,
    no_pods_of,
    watch,
)

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

FAULTS = {
    "latency_ms": 10, "jitter_ms": 100, "error_rate": 0.1, "error_codes": [429, 500, 503], "lost_rate": 0.02,
    "cuts_per_min": 20, "seed": 11,
}  # fmt: skip
LINES = 200
"""Warnings and worse in the log of one operator, at most."""


async def test_nothing_is_lost_or_doubled_and_the_log_stays_readable(api_server: Cluster, tmp_path: Path) -> None:
    drawn = random.Random(7)
    async with simulated_tenant(
        api_server, "faulty", tmp_path, nodes=NODES, gpus=GPUS, run_s=lambda pod: drawn.uniform(0.5, 3.0)
    ) as tenant:
        operator = await tenant.start_ready()
        await tenant.wait(tenant.leader, what="the operator leads")
        api_server.api_faults(**FAULTS)
        try:
            watching = asyncio.create_task(watch(tenant))
            deleted = await come_and_go(tenant, drawn)
            kept = {f"job-{index}" for index in range(JOBS)} - deleted
            await tenant.wait(lambda: all_succeeded(tenant, kept), seconds=300, what="every job that was kept succeeds")
            await tenant.wait(lambda: no_pods_of(tenant, deleted), what="no pod of a deleted job is left")
            watching.cancel()
            problems = await asyncio.gather(watching, return_exceptions=True)
        finally:
            api_server.api_faults()
        assert [one for one in problems if not isinstance(one, asyncio.CancelledError)] == []
        jobs = {job["metadata"]["name"]: job["status"] for job in await tenant.jobs()}
        assert set(jobs) == kept
        again = {name: status for name, status in jobs.items() if status["attempts"] != 1}
        assert again == {}, "every job is started once"
        assert tenant.replicas[operator].returncode is None, "the operator lives through it"
        log = (tmp_path / f"{operator}.log").read_text()
        assert "Traceback" not in log
        assert len(re.findall(r" (?:WARNING|ERROR|CRITICAL) ", log)) < LINES, log[-3000:]
