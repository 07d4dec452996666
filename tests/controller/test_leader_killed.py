"""Kill -9 the leading operator at random moments while 30 jobs come and go: nothing lost, doubled or overcommitted."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.controller.replicas import World, played

from cotenant import names
from cotenant.controller.kube import TRAINING_JOBS, Document

if TYPE_CHECKING:
    from cotenant_local.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

JOBS, NODES, GPUS, KILLS = 30, 2, 4, 4
MEMORY_MIB = 80 * 1024
TAKEOVER_S = 10.0
SHAPES: tuple[dict[str, Any], ...] = (
    {"gpu": {"count": 1}},
    {"gpu": {"count": 2}, "workers": 2},
    {"gpu": {"memoryFraction": "0.4"}, "workers": 2},
    {"gpu": {"memory": "20Gi"}},
    {"gpu": {"count": 1}, "workers": 6},
)


async def test_nothing_is_lost_doubled_or_overcommitted_when_leaders_are_killed(
    api_server: Cluster, tmp_path: Path
) -> None:
    drawn = random.Random(7)
    async with played(
        api_server, "killed", tmp_path, nodes=NODES, gpus=GPUS, run_s=lambda pod: drawn.uniform(0.5, 3.0)
    ) as world:
        await world.start_ready()
        await world.start_ready()
        await world.wait(world.leader, what="a replica leads")
        watching = asyncio.create_task(_watch(world))
        killing = asyncio.create_task(_kill(world, drawn))
        deleted = await _come_and_go(world, drawn)
        took = await killing
        kept = {f"job-{index}" for index in range(JOBS)} - deleted
        await world.wait(lambda: _all_succeeded(world, kept), seconds=240, what="every job that was kept succeeds")
        await world.wait(lambda: _no_pods_of(world, deleted), what="no pod of a deleted job is left")
        watching.cancel()
        problems = await asyncio.gather(watching, return_exceptions=True)
        assert [one for one in problems if not isinstance(one, asyncio.CancelledError)] == []
        jobs = {job["metadata"]["name"]: job["status"] for job in await world.jobs()}
        assert set(jobs) == kept
        assert {name: status["attempts"] for name, status in jobs.items()} == dict.fromkeys(kept, 1)
        print(f"takeovers: {', '.join(f'{seconds:.1f} s' for seconds in took)}")
        assert len(took) == KILLS


async def _come_and_go(world: World, drawn: random.Random) -> set[str]:
    """Jobs of all shapes arrive; every sixth is deleted soon after, wherever it is by then."""
    deleted = set()
    for index in range(JOBS):
        name = f"job-{index}"
        await world.submit(name, **SHAPES[index % len(SHAPES)])
        await asyncio.sleep(drawn.uniform(0.0, 1.5))
        if index % 6 == 5:
            await world.kube.delete(TRAINING_JOBS, name, world.namespace)
            deleted.add(name)
    return deleted


async def _kill(world: World, drawn: random.Random) -> list[float]:
    """Seconds until another replica led, for each kill."""
    took = []
    for _ in range(KILLS):
        await asyncio.sleep(drawn.uniform(1.0, 6.0))
        leader = await world.wait(world.leader, what="a replica leads")
        world.replicas[leader].kill()
        await world.replicas[leader].wait()
        killed_at = time.monotonic()
        await world.wait(world.leader, seconds=TAKEOVER_S, what=f"another replica leads after {leader} was killed")
        took.append(time.monotonic() - killed_at)
        await world.start_ready()
    return took


async def _watch(world: World) -> None:
    """At every moment: no GPU holds more than it has, and no job has live pods of two attempts."""
    while True:
        pods = [pod for pod in await world.pods() if pod["status"].get("phase") in {"Pending", "Running"}]
        _assert_within(_held_by_pods(pods), "pods")
        attempts: dict[str, set[str]] = {}
        for pod in pods:
            labels = pod["metadata"]["labels"]
            attempts.setdefault(labels[names.LABEL_JOB_UID], set()).add(labels[names.LABEL_ATTEMPT])
        assert all(len(one) == 1 for one in attempts.values()), attempts
        _assert_within(_held_by_jobs(await world.jobs()), "placements")
        await asyncio.sleep(0.1)


def _held_by_pods(pods: list[Document]) -> Counter[str]:
    held: Counter[str] = Counter()
    for pod in pods:
        placement = json.loads(pod["metadata"]["annotations"][names.ANNOTATION_PLACEMENT])
        for grants in placement["grants"].values():
            held.update({grant["uuid"]: grant["memoryMiB"] for grant in grants})
    return held


def _held_by_jobs(jobs: list[Document]) -> Counter[str]:
    held: Counter[str] = Counter()
    for job in jobs:
        for node in ((job.get("status") or {}).get("placement") or {}).get("nodes", ()):
            for rank in node["ranks"]:
                held.update({grant["uuid"]: grant["memoryMiB"] for grant in rank["gpus"]})
    return held


def _assert_within(held: Counter[str], what: str) -> None:
    over = {uuid: mib for uuid, mib in held.items() if mib > MEMORY_MIB}
    assert over == {}, f"{what} hold more than there is"


async def _all_succeeded(world: World, kept: set[str]) -> bool:
    jobs = {job["metadata"]["name"]: job.get("status", {}).get("phase") for job in await world.jobs()}
    failed = {name: phase for name, phase in jobs.items() if phase == "Failed"}
    assert failed == {}
    return all(jobs.get(name) == "Succeeded" for name in kept)


async def _no_pods_of(world: World, deleted: set[str]) -> bool:
    return not any(pod["metadata"]["labels"][names.LABEL_JOB] in deleted for pod in await world.pods())
