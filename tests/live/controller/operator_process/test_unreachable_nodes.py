"""Nodes that are deleted, tainted and made again while their jobs run. A real operator, played nodes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from cotenant import names
from cotenant.controller.client.kube import NODES, PODS, QUEUES
from tests.live.controller.operator_process.replicas import Tenant, simulated_tenant

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

NAMESPACE = "nodes-go"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    logs = tmp_path_factory.mktemp("nodes-go")
    async with simulated_tenant(api_server, NAMESPACE, logs, nodes=2, gpus=4, run_s=lambda pod: 10_000.0) as tenant:
        await tenant.start_ready()
        await tenant.wait(tenant.leader, what="the operator leads")
        yield tenant
        for log in logs.glob("*.log"):
            assert not re.findall(r"Traceback| (?:ERROR|CRITICAL) ", log.read_text())


async def test_gpus_of_a_deleted_node_count_against_the_quota_until_their_pods_are_gone(tenant: Tenant) -> None:
    limited = {"namespaces": [NAMESPACE], "quotas": [{"guaranteed": 4, "limit": 4}]}
    body = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "limited"}, "spec": limited}
    assert (await tenant.kube.create(QUEUES, body)).done
    try:
        await tenant.submit("loses", workers=4, queue="limited")
        (part,) = (await tenant.wait_phase("loses", "Running"))["placement"]["nodes"]
        slow = {"metadata": {"finalizers": ["cotenant.dev/slow-kubelet"]}}
        assert (await tenant.kube.patch(PODS, "loses-1-0", slow, namespace=NAMESPACE)).done
        await tenant.kube.delete(NODES, part["node"])
        status = await tenant.wait_phase("loses", "Evicting")
        # Made only now, because by its priority it would have taken the place of the other.
        await tenant.submit("waits", workers=4, queue="limited", priority=1)
        assert (status["eviction"]["kind"], status["failures"]) == ("NodeLost", 0)
        assert part["node"] in status["eviction"]["message"]

        async def reported() -> bool:
            pending = (await tenant.status("waits")).get("pending") or {}
            return pending.get("reason") == "WaitingForEviction"

        await tenant.wait(reported, what="the verdict of the other is that room is being made")
        assert (await tenant.status("waits"))["attempts"] == 0
        assert (
            await tenant.kube.patch(PODS, "loses-1-0", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        ).done
        status = await tenant.wait_phase("waits", "Running")
        assert status["placement"]["nodes"][0]["node"] != part["node"]
        assert (await tenant.status("loses"))["failures"] == 0
    finally:
        await tenant.kube.patch(PODS, "loses-1-0", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        await tenant.kube.delete(QUEUES, "limited")
