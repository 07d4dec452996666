"""Objects that a tenant makes to stop the operator: it goes on, has not restarted, and everybody else's job with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from cotenant import names
from cotenant.controller.client.kube import NAMESPACES, PODS, TRAINING_JOBS, Document, Outcome, Resource
from tests.live.controller.operator_process.replicas import Tenant, simulated_tenant

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

ELSEWHERE = "hostile-elsewhere"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    """Two replicas, because a replica that does not lead watches too."""
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
    """A copy of this pod of the operator with other labels. It is never bound."""
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


POLICIES = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", namespaced=False)
BINDINGS = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", namespaced=False)


async def refuse_status(tenant: Tenant, name: str) -> None:
    """Have the API server refuse every status of this job."""
    rule = {"apiGroups": [names.GROUP], "apiVersions": ["*"], "operations": ["UPDATE"]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "hostile"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule | {"resources": ["trainingjobs/status"]}]},
            "matchConditions": [{"name": "one", "expression": f"object.metadata.name == '{name}'"}],
            "validations": [{"expression": "false", "message": "not this one"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "hostile"},
        "spec": {"policyName": "hostile", "validationActions": ["Deny"]},
    }
    assert (await tenant.kube.create(POLICIES, policy)).done
    assert (await tenant.kube.create(BINDINGS, binding)).done

    async def refused() -> bool:
        status = {"status": {"isolation": "None"}}
        reply = await tenant.kube.patch(TRAINING_JOBS, name, status, namespace=tenant.namespace, subresource="status")
        return reply.outcome is Outcome.REFUSED

    await tenant.wait(refused, what="the policy is in force")


async def test_a_job_whose_status_is_refused_is_ended_all_the_same_and_its_room_is_anothers(tenant: Tenant) -> None:
    await tenant.submit("long-2", workers=4)
    await tenant.wait_phase("long-2", "Running")
    try:
        await refuse_status(tenant, "long-2")
        await tenant.kube.patch(TRAINING_JOBS, "long-2", {"spec": {"suspend": True}}, namespace=tenant.namespace)
        await tenant.submit("short-2", workers=4)
        await tenant.wait_phase("short-2", "Succeeded")
        kept = (await tenant.status("long-2"))["phase"]
    finally:
        await tenant.kube.delete(BINDINGS, "hostile")
        await tenant.kube.delete(POLICIES, "hostile")
    log = "".join(path.read_text() for path in tenant.logs.glob("*.log"))
    assert (kept, restarts(tenant), 0 < log.count("hostile/long-2 is left alone") < 12) == ("Running", [], True)
    await tenant.wait_phase("long-2", "Suspended")
