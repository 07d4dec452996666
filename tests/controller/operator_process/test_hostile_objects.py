"""Objects that a tenant makes to stop the operator: it goes on, has not restarted, and everybody else's job with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from cotenant import names
from cotenant.controller.client.kube import NAMESPACES, PODS, Document
from tests.controller.operator_process.replicas import Tenant, simulated_tenant

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

ELSEWHERE = "hostile-elsewhere"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    """Two replicas, since both watch."""
    logs = tmp_path_factory.mktemp("hostile")

    def run_s(pod: Document) -> float:
        return 10_000.0 if "long" in pod["metadata"]["name"] else 1.0

    async with simulated_tenant(api_server, "hostile", logs, nodes=1, gpus=4, run_s=run_s) as tenant:
        await tenant.kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ELSEWHERE}})
        for _ in range(2):
            await tenant.start_ready()
        await tenant.wait(tenant.leader, what="an operator leads")
        yield tenant


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(running: Tenant) -> AsyncIterator[Tenant]:
    yield running
    await running.clear()


def restarts(tenant: Tenant) -> list[str]:
    return [name for name, process in tenant.replicas.items() if process.returncode is not None]


def forged(pod: Document, *, namespace: str, **labels: str | None) -> Document:
    """A pod that says of itself what this one of the operator's says, but for these labels; it is never bound."""
    metadata = pod["metadata"]
    kept = {key: value for key, value in (metadata["labels"] | labels).items() if value is not None}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata["name"] if namespace != metadata["namespace"] else "forged",
            "namespace": namespace,
            "labels": kept,
            "annotations": metadata.get("annotations") or {},
            "ownerReferences": metadata["ownerReferences"],
        },
        "spec": {
            "nodeSelector": {"nowhere": "at-all"},
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": names.CONTAINER,
                    "image": "example.com/none",
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "env": [{"name": "COTENANT_CONTRACT", "value": "[" * 4090}],
                }
            ],
        },
    }


async def test_pods_that_claim_to_be_of_a_job_stop_no_replica_and_end_no_pod_of_it(tenant: Tenant) -> None:
    await tenant.submit("long-1", workers=2)
    await tenant.wait_phase("long-1", "Running")
    (pod,) = await tenant.pods()
    labels: tuple[dict[str, str | None], ...] = (
        {},
        {names.LABEL_JOB: None},
        {names.LABEL_ATTEMPT: None},
        {names.LABEL_NODE_RANK: "9" * 60},
        {names.LABEL_JOB_UID: None},
    )
    for changes in labels:
        for namespace in (tenant.namespace, ELSEWHERE):
            document = forged(pod, namespace=namespace, **changes)
            made = await tenant.kube.create(PODS, document, namespace)
            assert made.done, made.message
            await tenant.kube.delete(PODS, document["metadata"]["name"], namespace, grace_s=0)
    await tenant.submit("short-1", workers=2)
    await tenant.wait_phase("short-1", "Succeeded")
    status = await tenant.status("long-1")
    assert (status["phase"], status["attempts"], restarts(tenant)) == ("Running", 1, [])
