"""Limits that a tenant cannot get around, under a real operator process on the real API server. Kubelets are played."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from cotenant import names
from cotenant.controller.client.kube import QUEUES, TRAINING_JOBS
from tests.live.controller.operator_process.replicas import Tenant, simulated_tenant

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

NAMESPACE = "limits"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    """One operator, two nodes of four GPUs, a queue of eight. Jobs run until they are ended."""
    logs = tmp_path_factory.mktemp("limits")
    async with simulated_tenant(api_server, NAMESPACE, logs, nodes=2, gpus=4, run_s=lambda _: 10_000.0) as tenant:
        await tenant.start_ready()
        await tenant.wait(tenant.leader, what="the operator leads")
        yield tenant


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(running: Tenant) -> AsyncIterator[Tenant]:
    """The same, with no job left over from the test before."""
    yield running
    await running.clear()


async def pending(tenant: Tenant, name: str, reason: str) -> dict[str, Any]:
    """`status.pending` of a job once it waits for this reason."""

    async def told() -> dict[str, Any]:
        found: dict[str, Any] = (await tenant.status(name)).get("pending") or {}
        return found if found.get("reason") == reason else {}

    answer: dict[str, Any] = await tenant.wait(told, what=f"{name} waits with {reason}")
    return answer


async def test_a_job_that_outlives_its_word_gives_the_gpus_back_that_were_kept_for_another(tenant: Tenant) -> None:
    await tenant.submit("busy", workers=6, expectedRuntime="10m")
    await tenant.wait_phase("busy", "Running")
    await tenant.submit("gang", workers=8)
    await pending(tenant, "gang", "WaitingForGPUs")
    await tenant.submit("liar", expectedRuntime="1s")
    status = await tenant.wait_phase("liar", "Running")
    assert "its GPUs are kept for another job" in next(
        one["message"] for one in status["conditions"] if one["type"] == "Admitted"
    )
    assert status["placement"]["backfilledUntil"]
    await tenant.kube.delete(TRAINING_JOBS, "busy", tenant.namespace)
    await tenant.wait_phase("gang", "Running")
    eviction = (await tenant.status("liar"))["eviction"]
    assert (eviction["kind"], eviction["inFavourOf"], eviction["done"]) == ("Overran", f"{NAMESPACE}/gang", True)


async def test_jobs_beyond_the_line_are_told_so_and_come_into_it_when_others_leave(tenant: Tenant) -> None:
    spec = {"namespaces": [NAMESPACE], "quotas": [{"guaranteed": 1}], "maxPending": {"jobs": 1}, "maxPriority": 5}
    body = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "narrow"}, "spec": spec}
    assert (await tenant.kube.create(QUEUES, body)).done
    try:
        await tenant.submit("runs", workers=8, queue="narrow", priority=5)
        await tenant.wait_phase("runs", "Running")
        await tenant.submit("first", workers=8, queue="narrow", priority=5)
        await pending(tenant, "first", "WaitingForGPUs")
        await tenant.submit("second", workers=8, queue="narrow")
        said = await pending(tenant, "second", "TooManyPending")
        assert "considers 1 waiting job" in said["message"]
        await tenant.submit("loud", workers=8, queue="narrow", priority=10**9)
        said = await pending(tenant, "loud", "PriorityNotAllowed")
        assert "write spec.priority: 5" in said["message"]
        await tenant.kube.delete(TRAINING_JOBS, "first", tenant.namespace)
        await pending(tenant, "second", "WaitingForGPUs")
    finally:
        await tenant.clear()
        await tenant.kube.delete(QUEUES, "narrow")
