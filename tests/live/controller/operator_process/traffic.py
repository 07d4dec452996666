"""Thirty jobs of all shapes that come and go, and what must hold at every moment meanwhile. For tests of faults."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

from cotenant import names
from cotenant.controller.client.kube import TRAINING_JOBS, Document
from tests.live.controller.operator_process.replicas import Tenant

JOBS, NODES, GPUS = 30, 2, 4
MEMORY_MIB = 80 * 1024
SHAPES: tuple[dict[str, Any], ...] = (
    {"gpu": {"count": 1}},
    {"gpu": {"count": 2}, "workers": 2},
    {"gpu": {"memoryFraction": "0.4"}, "workers": 2},
    {"gpu": {"memory": "20Gi"}},
    {"gpu": {"count": 1}, "workers": 6},
)


async def come_and_go(tenant: Tenant, drawn: random.Random) -> set[str]:
    """Jobs of all shapes arrive; every sixth is deleted soon after, wherever it is by then."""
    deleted = set()
    for index in range(JOBS):
        name = f"job-{index}"
        await tenant.submit(name, **SHAPES[index % len(SHAPES)])
        await asyncio.sleep(drawn.uniform(0.0, 1.5))
        if index % 6 == 5:
            await tenant.kube.delete(TRAINING_JOBS, name, tenant.namespace)
            deleted.add(name)
    return deleted


async def watch(tenant: Tenant) -> None:
    """Check at every moment that no GPU holds more than it has, and no job has live pods of two attempts."""
    while True:
        pods = [pod for pod in await tenant.pods() if pod["status"].get("phase") in {"Pending", "Running"}]
        _assert_within(_held_by_pods(pods), "pods", pods)
        attempts: dict[str, set[str]] = {}
        for pod in pods:
            labels = pod["metadata"]["labels"]
            attempts.setdefault(labels[names.LABEL_JOB_UID], set()).add(labels[names.LABEL_ATTEMPT])
        assert all(len(one) == 1 for one in attempts.values()), attempts
        jobs = await tenant.jobs()
        _assert_within(_held_by_jobs(jobs), "placements", jobs)
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


def _assert_within(held: Counter[str], what: str, holders: list[Document]) -> None:
    over = {uuid: mib for uuid, mib in held.items() if mib > MEMORY_MIB}
    culprits = [one for one in holders if any(uuid in json.dumps(one) for uuid in over)]
    assert over == {}, f"{what} hold more than there is: {json.dumps(culprits, indent=1)}"


async def all_succeeded(tenant: Tenant, kept: set[str]) -> bool:
    jobs = {job["metadata"]["name"]: job.get("status", {}).get("phase") for job in await tenant.jobs()}
    failed = {name: phase for name, phase in jobs.items() if phase == "Failed"}
    assert failed == {}
    return all(jobs.get(name) == "Succeeded" for name in kept)


async def no_pods_of(tenant: Tenant, deleted: set[str]) -> bool:
    return not any(pod["metadata"]["labels"][names.LABEL_JOB] in deleted for pod in await tenant.pods())
