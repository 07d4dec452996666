"""What people do to a cluster while jobs run: no operator, namespaces, queues and quotas that go. A real operator."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from cotenant import names
from cotenant.controller.client.kube import NAMESPACES, PODS, QUEUES, Document
from tests.live.controller.operator_process.replicas import Tenant, simulated_tenant

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

NAMESPACE, DOOMED = "disrupted", "doomed"


def seconds(pod: Document) -> float:
    """Run time by the job's name: `soon-…` ends by itself."""
    return 4.0 if pod["metadata"]["labels"][names.LABEL_JOB].startswith("soon") else 10_000.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    logs = tmp_path_factory.mktemp("disrupted")
    async with simulated_tenant(api_server, NAMESPACE, logs, nodes=2, gpus=4, run_s=seconds) as tenant:
        await tenant.start_ready()
        await tenant.wait(tenant.leader, what="the operator leads")
        yield tenant
        for log in logs.glob("*.log"):
            assert not re.findall(r"Traceback| (?:ERROR|CRITICAL) ", log.read_text()), (
                "none of this is the operator's fault"
            )


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(running: Tenant) -> AsyncIterator[Tenant]:
    yield running
    await running.clear()


def quota(amount: int, *namespaces: str) -> Document:
    return {"namespaces": list(namespaces), "quotas": [{"guaranteed": amount, "limit": amount}]}


async def make_queue(tenant: Tenant, name: str, spec: Document) -> None:
    body = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    made = await tenant.kube.create(QUEUES, body)
    assert made.done, made.message


async def waits_for(tenant: Tenant, name: str, reason: str) -> dict[str, Any]:
    async def reported() -> dict[str, Any]:
        status = await tenant.status(name)
        return status if (status.get("pending") or {}).get("reason") == reason else {}

    found: dict[str, Any] = await tenant.wait(reported, what=f"{name} waits with {reason}")
    return found


async def test_a_job_that_ends_while_no_operator_runs_has_succeeded_when_one_comes(tenant: Tenant) -> None:
    await tenant.submit("soon-1", workers=2)
    await tenant.wait_phase("soon-1", "Running")
    leader = await tenant.leader()
    tenant.replicas[leader].kill()
    await tenant.replicas[leader].wait()

    async def ended() -> bool:
        return [pod["status"].get("phase") for pod in await tenant.pods()] == ["Succeeded"]

    await tenant.wait(ended, what="its pod has ended")
    assert (await tenant.status("soon-1"))["phase"] == "Running", "nobody was there to say so"
    await tenant.start_ready()
    status = await tenant.wait_phase("soon-1", "Succeeded")
    assert (status["attempts"], status["results"]) == (1, {"accuracy": 0.97})


async def test_a_namespace_that_is_deleted_takes_its_jobs_along_and_gives_their_gpus_back(tenant: Tenant) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DOOMED}}
    assert (await tenant.kube.create(NAMESPACES, body)).done
    await make_queue(tenant, DOOMED, quota(8, DOOMED))
    try:
        there = Tenant(tenant.kube, tenant.kubeconfig, DOOMED, tenant.logs)
        await there.submit("runs", workers=8)
        await there.wait_phase("runs", "Running")
        await there.submit("waits", workers=8)
        await there.wait_phase("waits", "Pending")
        await tenant.submit("heir", workers=8)
        await tenant.wait_phase("heir", "Pending")
        await tenant.kube.delete(NAMESPACES, DOOMED)
        await tenant.wait_phase("heir", "Running")

        async def gone() -> bool:
            pods = (await tenant.kube.list(PODS, DOOMED)).items
            return not pods and not await there.jobs()

        await tenant.wait(gone, what="nothing of the namespace's jobs is left")
    finally:
        await tenant.kube.delete(QUEUES, DOOMED)


async def test_a_queue_that_is_deleted_leaves_what_runs_and_tells_what_waits(tenant: Tenant) -> None:
    await make_queue(tenant, "fleeting", quota(4, NAMESPACE))
    try:
        await tenant.submit("runs", workers=4, queue="fleeting")
        before = await tenant.wait_phase("runs", "Running")
        await tenant.submit("waits", workers=2, queue="fleeting")
        await waits_for(tenant, "waits", "WaitingForQuota")
        await tenant.kube.delete(QUEUES, "fleeting")
        reported = await waits_for(tenant, "waits", "QueueNotFound")
        assert "fleeting" in reported["pending"]["message"]
        after = await tenant.status("runs")
        assert (after["phase"], after["placement"]) == ("Running", before["placement"])
        await make_queue(tenant, "fleeting", quota(8, NAMESPACE))
        await tenant.wait_phase("waits", "Running")
        assert (await tenant.status("runs"))["attempts"] == 1
    finally:
        await tenant.kube.delete(QUEUES, "fleeting")


async def test_a_quota_that_shrinks_evicts_nobody_and_admits_nobody(tenant: Tenant) -> None:
    await make_queue(tenant, "shrinking", quota(6, NAMESPACE))
    try:
        await tenant.submit("runs", workers=6, queue="shrinking")
        before = await tenant.wait_phase("runs", "Running")
        assert (await tenant.kube.patch(QUEUES, "shrinking", {"spec": quota(2, NAMESPACE)})).done
        await tenant.submit("waits", queue="shrinking")
        await waits_for(tenant, "waits", "WaitingForQuota")
        await tenant.submit("never", workers=3, queue="shrinking")
        reported = await waits_for(tenant, "never", "ExceedsLimit")
        assert "2" in reported["pending"]["message"]
        after = await tenant.status("runs")
        assert (after["phase"], after["placement"]) == ("Running", before["placement"])
    finally:
        await tenant.kube.delete(QUEUES, "shrinking")
