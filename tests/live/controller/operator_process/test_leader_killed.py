"""Kill -9 the leading operator at random moments while 30 jobs come and go: nothing lost, doubled or overcommitted."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.controller.operator_process.replicas import Tenant, simulated_tenant
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

KILLS = 4
TAKEOVER_S = 10.0


async def test_nothing_is_lost_doubled_or_overcommitted_when_leaders_are_killed(
    api_server: Cluster, tmp_path: Path
) -> None:
    drawn = random.Random(7)
    async with simulated_tenant(
        api_server, "killed", tmp_path, nodes=NODES, gpus=GPUS, run_s=lambda pod: drawn.uniform(0.5, 3.0)
    ) as tenant:
        await tenant.start_ready()
        await tenant.start_ready()
        await tenant.wait(tenant.leader, what="a replica leads")
        watching = asyncio.create_task(watch(tenant))
        killing = asyncio.create_task(_kill(tenant, drawn))
        deleted = await come_and_go(tenant, drawn)
        took = await killing
        kept = {f"job-{index}" for index in range(JOBS)} - deleted
        await tenant.wait(lambda: all_succeeded(tenant, kept), seconds=240, what="every job that was kept succeeds")
        await tenant.wait(lambda: no_pods_of(tenant, deleted), what="no pod of a deleted job is left")
        watching.cancel()
        problems = await asyncio.gather(watching, return_exceptions=True)
        assert [one for one in problems if not isinstance(one, asyncio.CancelledError)] == []
        jobs = {job["metadata"]["name"]: job["status"] for job in await tenant.jobs()}
        assert set(jobs) == kept
        assert {name: status["attempts"] for name, status in jobs.items()} == dict.fromkeys(kept, 1)
        print(f"takeovers: {', '.join(f'{seconds:.1f} s' for seconds in took)}")
        assert len(took) == KILLS


async def _kill(tenant: Tenant, drawn: random.Random) -> list[float]:
    """Seconds until another replica led, for each kill."""
    took = []
    for _ in range(KILLS):
        await asyncio.sleep(drawn.uniform(1.0, 6.0))
        leader = await tenant.wait(tenant.leader, what="a replica leads")
        tenant.replicas[leader].kill()
        await tenant.replicas[leader].wait()
        killed_at = time.monotonic()
        await tenant.wait(tenant.leader, seconds=TAKEOVER_S, what=f"another replica leads after {leader} was killed")
        took.append(time.monotonic() - killed_at)
        await tenant.start_ready()
    return took
