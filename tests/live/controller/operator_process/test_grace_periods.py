"""Pods that use all of their grace period, and tenants who give them years of it. A real operator and API server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from cotenant.controller.client.kube import EVENTS, PODS, TRAINING_JOBS
from tests.live.controller.operator_process.replicas import Tenant, simulated_tenant
from tests.support.largest_job import largest_spec

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

NAMESPACE = "grace"
YEARS = 100_000_000
RUN_S = 10_000.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    logs = tmp_path_factory.mktemp(NAMESPACE)
    async with simulated_tenant(api_server, NAMESPACE, logs, nodes=1, gpus=4, run_s=run_s, patient=True) as tenant:
        await tenant.start_ready()
        await tenant.wait(tenant.leader, what="the operator leads")
        yield tenant
        for log in logs.glob("*.log"):
            assert not re.findall(r"Traceback| (?:ERROR|CRITICAL) ", log.read_text())


def run_s(pod: dict[str, Any]) -> float:
    """Second attempts end soon."""
    return 1.0 if pod["metadata"]["name"].endswith("-2-0") else RUN_S


async def events(tenant: Tenant, reason: str) -> list[str]:
    return [one["message"] for one in (await tenant.kube.list(EVENTS, NAMESPACE)).items if one["reason"] == reason]


async def test_gpus_are_free_soon_after_a_delete_that_leaves_years_to_go(tenant: Tenant) -> None:
    await tenant.submit("years", workers=4, gracePeriod="2s")
    await tenant.wait_phase("years", "Running")
    await tenant.kube.delete(PODS, "years-1-0", NAMESPACE, grace_s=YEARS)
    status = await tenant.wait_phase("years", "Succeeded", seconds=30)
    assert (status["attempts"], status["failures"]) == (2, 0)
    (note,) = await events(tenant, "GracePeriodShortened")
    assert "years-1-0 on node grace-0 was asked to end with a grace period of 100000000 s" in note
    await tenant.clear()


async def test_a_deleted_job_leaves_its_gpus_though_its_pod_was_given_years(tenant: Tenant) -> None:
    await tenant.submit("gone", workers=4, gracePeriod="2s")
    await tenant.wait_phase("gone", "Running")
    await tenant.kube.delete(TRAINING_JOBS, "gone", NAMESPACE)
    await tenant.kube.delete(PODS, "gone-1-0", NAMESPACE, grace_s=YEARS)
    await tenant.wait(tenant.empty, seconds=30, what="the pod of the deleted job has ended")


async def test_the_grace_period_of_a_job_is_at_most_what_the_cluster_allows(tenant: Tenant) -> None:
    await tenant.submit("day", workers=1, gracePeriod="24h")
    status = await tenant.wait_phase("day", "Running")
    (pod,) = await tenant.pods()
    assert pod["spec"]["terminationGracePeriodSeconds"] == 600
    admitted = next(one for one in status["conditions"] if one["type"] == "Admitted")
    assert "its gracePeriod of 24h is cut to 10m, the most in this cluster" in admitted["message"]
    await tenant.kube.delete(PODS, "day-1-0", NAMESPACE, grace_s=1)
    await tenant.clear()


async def test_the_largest_legal_program_is_admitted_runs_is_evicted_and_finishes(tenant: Tenant) -> None:
    spec = largest_spec()
    runtime = {key: spec["runtime"][key] for key in ("command", "env", "tracking")}
    runtime["tracking"] = {"mlflow": runtime["tracking"]["mlflow"]}
    await tenant.submit("large", workers=2, gracePeriod="2s", runtime=runtime)
    await tenant.wait_phase("large", "Running")
    suspended = {"spec": {"suspend": True}}
    assert (await tenant.kube.patch(TRAINING_JOBS, "large", suspended, namespace=NAMESPACE)).done
    status = await tenant.wait_phase("large", "Suspended", seconds=30)
    assert status["usage"]["gpuMilliseconds"] > 0
    resumed = {"spec": {"suspend": False}}
    assert (await tenant.kube.patch(TRAINING_JOBS, "large", resumed, namespace=NAMESPACE)).done
    assert (await tenant.wait_phase("large", "Succeeded", seconds=30))["attempts"] == 2
    await tenant.clear()


async def test_a_finalizer_keeps_a_pod_that_never_had_a_node_and_no_gpus(tenant: Tenant) -> None:
    nowhere = {"volumes": [{"name": "a", "mountPath": "/a", "persistentVolumeClaim": {"claimName": "missing"}}]}
    await tenant.submit("kept", workers=4, runtime={"entrypoint": "train:main"} | nowhere)
    await tenant.wait_phase("kept", "Starting")

    async def made() -> bool:
        return (await tenant.kube.get(PODS, "kept-1-0", NAMESPACE)).done

    await tenant.wait(made, what="its pod is there")
    finalizers = {"metadata": {"finalizers": ["example.com/never"]}}
    assert (await tenant.kube.patch(PODS, "kept-1-0", finalizers, namespace=NAMESPACE)).done
    try:
        suspended = {"spec": {"suspend": True}}
        assert (await tenant.kube.patch(TRAINING_JOBS, "kept", suspended, namespace=NAMESPACE)).done
        await tenant.wait_phase("kept", "Suspended", seconds=30)
        await tenant.submit("other", workers=4)
        await tenant.wait_phase("other", "Running", seconds=30)
        assert (await tenant.kube.get(PODS, "kept-1-0", NAMESPACE)).done
    finally:
        await tenant.kube.patch(PODS, "kept-1-0", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        await tenant.kube.delete(PODS, "other-1-0", NAMESPACE, grace_s=1)
    await tenant.clear()
