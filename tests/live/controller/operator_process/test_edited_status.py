"""A status is edited by hand: the job gets a warning, and no GPU is handed out twice. A real operator."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from cotenant import names
from cotenant.controller.client.kube import EVENTS, PODS, TRAINING_JOBS, Reply
from cotenant.controller.informers.pods.pod_record import read_pod
from tests.live.controller.operator_process.replicas import Tenant, simulated_tenant

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    logs = tmp_path_factory.mktemp("edited")
    async with simulated_tenant(api_server, "edited", logs, nodes=1, gpus=4, run_s=lambda _: 10_000.0) as tenant:
        await tenant.start_ready()
        await tenant.wait(tenant.leader, what="the operator leads")
        yield tenant


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(running: Tenant) -> AsyncIterator[Tenant]:
    yield running
    await running.clear()


async def write(tenant: Tenant, name: str, status: dict[str, Any]) -> Reply:
    return await tenant.kube.patch(
        TRAINING_JOBS, name, {"status": status}, namespace=tenant.namespace, subresource="status"
    )


async def given(tenant: Tenant) -> list[str]:
    """The GPUs of all pods that may run, once for each that has it."""
    facts = [read_pod(pod) for pod in await tenant.pods()]
    return sorted(
        grant.uuid
        for pod in facts
        if pod.held and pod.worker and pod.worker.placement
        for rank in pod.worker.placement.ranks
        for grant in rank.gpus
    )


async def warned(tenant: Tenant, name: str, reason: str) -> str:
    """The Event of that reason about the job."""

    async def reported() -> str:
        events = (await tenant.kube.list(EVENTS, tenant.namespace)).items
        said = [one for one in events if (one.get("involvedObject", {}).get("name"), one["reason"]) == (name, reason)]
        return str(said[-1]["message"]) if said and said[-1]["type"] == "Warning" else ""

    return str(await tenant.wait(reported, what=f"{name} is warned of {reason}"))


async def test_a_place_taken_from_another_job_by_hand_is_given_up_before_anything_runs(tenant: Tenant) -> None:
    await tenant.submit("owner", workers=4)
    held = await tenant.wait_phase("owner", "Running")
    await tenant.submit("thief", workers=4)
    await tenant.wait_phase("thief", "Pending")
    stolen = {"phase": "Starting", "attempts": 1, "placement": held["placement"]}
    assert (await write(tenant, "thief", stolen)).done
    assert "(beside it: edited/owner)" in await warned(tenant, "thief", "PlacementImpossible")
    status = await tenant.wait_phase("thief", "Pending")
    assert ("placement" in status, status["failures"]) == (False, 0)
    assert len(set(await given(tenant))) == len(await given(tenant)) == 4
    assert (await tenant.status("owner"))["attempts"] == 1


async def test_a_running_job_whose_placement_was_edited_is_placed_anew(tenant: Tenant) -> None:
    await tenant.submit("moved", workers=2)
    before = await tenant.wait_phase("moved", "Running")
    edited = copy.deepcopy(before["placement"])
    for rank in edited["nodes"][0]["ranks"]:
        rank["gpus"][0]["uuid"] = f"GPU-elsewhere-{rank['rank']}"
    assert (await write(tenant, "moved", {"placement": edited})).done
    assert "pod moved-1-0 was given other GPUs than it names" in await warned(tenant, "moved", "PlacementImpossible")

    async def again() -> dict[str, Any]:
        status = await tenant.status("moved")
        return status if status.get("phase") == "Running" and status["attempts"] == 2 else {}

    status = await tenant.wait(again, what="it runs again")
    named = [gpu["uuid"] for rank in status["placement"]["nodes"][0]["ranks"] for gpu in rank["gpus"]]
    assert sorted(named) == await given(tenant)


async def test_metadata_that_somebody_rewrites_frees_nothing_and_disturbs_nobody(tenant: Tenant) -> None:
    """People who may edit pods may edit metadata. The spec has the pod's grant, and nobody can edit it."""
    await tenant.submit("rewritten", workers=4)
    await tenant.wait_phase("rewritten", "Running")
    held = await given(tenant)
    labels = (await tenant.kube.get(PODS, "rewritten-1-0", tenant.namespace)).document["metadata"]["labels"]
    other = {"node": "nowhere", "ranks": {}, "grants": {}}
    bare = {"labels": None, "ownerReferences": None, "finalizers": ["example.com/mine"]}
    edits = [{"annotations": {names.ANNOTATION_PLACEMENT: str(other).replace("'", '"')}}, bare]
    for metadata in edits:
        body = {"metadata": metadata}
        assert (await tenant.kube.patch(PODS, "rewritten-1-0", body, namespace=tenant.namespace)).done
    await tenant.submit("next", workers=1)
    await tenant.wait_phase("next", "Running", "Pending")
    status = await tenant.status("rewritten")
    assert (status["phase"], status["attempts"], len(held)) == ("Running", 1, 4)
    restored = {"metadata": {"finalizers": None, "labels": labels}}  # the kubelet that is played here goes by labels
    assert (await tenant.kube.patch(PODS, "rewritten-1-0", restored, namespace=tenant.namespace)).done


NONSENSE: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("nodes", lambda placement: placement.update(nodes=[])),
    ("ranks", lambda placement: placement["nodes"][0].update(ranks=[])),
    ("rank", lambda placement: placement["nodes"][0]["ranks"][0].update(rank=-1)),
    ("gpus", lambda placement: placement["nodes"][0]["ranks"][0].update(gpus=[])),
    ("memoryMiB", lambda placement: placement["nodes"][0]["ranks"][0]["gpus"][0].update(memoryMiB=-1)),
    ("computeMilli", lambda placement: placement["nodes"][0]["ranks"][0]["gpus"][0].update(computeMilli=1001)),
]


async def test_a_placement_that_makes_no_sense_does_not_get_past_the_api_server(tenant: Tenant) -> None:
    await tenant.submit("sound")
    placement = (await tenant.wait_phase("sound", "Running"))["placement"]
    for field, spoil in NONSENSE:
        spoilt = copy.deepcopy(placement)
        spoil(spoilt)
        reply = await write(tenant, "sound", {"placement": spoilt})
        assert (reply.code, field in reply.message) == (422, True), (field, reply.message)
