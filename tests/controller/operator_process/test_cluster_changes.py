"""What people do to a cluster while jobs run: no operator, namespaces, queues and quotas that go. A real operator."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from cotenant import names
from cotenant.controller.client.kube import NAMESPACES, PODS, QUEUES, Document
from tests.controller.operator_process.replicas import World, played

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

NAMESPACE, DOOMED = "disrupted", "doomed"


def seconds(pod: Document) -> float:
    """By the job's name: `soon-…` ends by itself."""
    return 4.0 if pod["metadata"]["labels"][names.LABEL_JOB].startswith("soon") else 10_000.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    logs = tmp_path_factory.mktemp("disrupted")
    async with played(api_server, NAMESPACE, logs, nodes=2, gpus=4, run_s=seconds) as world:
        await world.start_ready()
        await world.wait(world.leader, what="the operator leads")
        yield world
        for log in logs.glob("*.log"):
            assert not re.findall(r"Traceback| (?:ERROR|CRITICAL) ", log.read_text()), (
                "none of this is the operator's fault"
            )


@pytest_asyncio.fixture(loop_scope="module")
async def world(running: World) -> AsyncIterator[World]:
    yield running
    await running.clear()


def quota(amount: int, *namespaces: str) -> Document:
    return {"namespaces": list(namespaces), "quotas": [{"guaranteed": amount, "limit": amount}]}


async def make_queue(world: World, name: str, spec: Document) -> None:
    body = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    made = await world.kube.create(QUEUES, body)
    assert made.done, made.message


async def waits_for(world: World, name: str, reason: str) -> dict[str, Any]:
    async def told() -> dict[str, Any]:
        status = await world.status(name)
        return status if (status.get("pending") or {}).get("reason") == reason else {}

    found: dict[str, Any] = await world.wait(told, what=f"{name} waits with {reason}")
    return found


async def test_a_job_that_ends_while_no_operator_runs_has_succeeded_when_one_comes(world: World) -> None:
    await world.submit("soon-1", workers=2)
    await world.wait_phase("soon-1", "Running")
    leader = await world.leader()
    world.replicas[leader].kill()
    await world.replicas[leader].wait()

    async def ended() -> bool:
        return [pod["status"].get("phase") for pod in await world.pods()] == ["Succeeded"]

    await world.wait(ended, what="its pod has ended")
    assert (await world.status("soon-1"))["phase"] == "Running", "nobody was there to say so"
    await world.start_ready()
    status = await world.wait_phase("soon-1", "Succeeded")
    assert (status["attempts"], status["results"]) == (1, {"accuracy": 0.97})


async def test_a_namespace_that_is_deleted_takes_its_jobs_along_and_gives_their_gpus_back(world: World) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DOOMED}}
    assert (await world.kube.create(NAMESPACES, body)).done
    await make_queue(world, DOOMED, quota(8, DOOMED))
    try:
        there = World(world.kube, world.kubeconfig, DOOMED, world.logs)
        await there.submit("runs", workers=8)
        await there.wait_phase("runs", "Running")
        await there.submit("waits", workers=8)
        await there.wait_phase("waits", "Pending")
        await world.submit("heir", workers=8)
        await world.wait_phase("heir", "Pending")
        await world.kube.delete(NAMESPACES, DOOMED)
        await world.wait_phase("heir", "Running")

        async def gone() -> bool:
            pods = (await world.kube.list(PODS, DOOMED)).items
            return not pods and not await there.jobs()

        await world.wait(gone, what="nothing of the namespace's jobs is left")
    finally:
        await world.kube.delete(QUEUES, DOOMED)


async def test_a_queue_that_is_deleted_leaves_what_runs_and_tells_what_waits(world: World) -> None:
    await make_queue(world, "fleeting", quota(4, NAMESPACE))
    try:
        await world.submit("runs", workers=4, queue="fleeting")
        before = await world.wait_phase("runs", "Running")
        await world.submit("waits", workers=2, queue="fleeting")
        await waits_for(world, "waits", "WaitingForQuota")
        await world.kube.delete(QUEUES, "fleeting")
        told = await waits_for(world, "waits", "QueueNotFound")
        assert "fleeting" in told["pending"]["message"]
        after = await world.status("runs")
        assert (after["phase"], after["placement"]) == ("Running", before["placement"])
        await make_queue(world, "fleeting", quota(8, NAMESPACE))
        await world.wait_phase("waits", "Running")
        assert (await world.status("runs"))["attempts"] == 1
    finally:
        await world.kube.delete(QUEUES, "fleeting")


async def test_a_quota_that_shrinks_evicts_nobody_and_admits_nobody(world: World) -> None:
    await make_queue(world, "shrinking", quota(6, NAMESPACE))
    try:
        await world.submit("runs", workers=6, queue="shrinking")
        before = await world.wait_phase("runs", "Running")
        assert (await world.kube.patch(QUEUES, "shrinking", {"spec": quota(2, NAMESPACE)})).done
        await world.submit("waits", queue="shrinking")
        await waits_for(world, "waits", "WaitingForQuota")
        await world.submit("never", workers=3, queue="shrinking")
        told = await waits_for(world, "never", "ExceedsLimit")
        assert "2" in told["pending"]["message"]
        after = await world.status("runs")
        assert (after["phase"], after["placement"]) == ("Running", before["placement"])
    finally:
        await world.kube.delete(QUEUES, "shrinking")
