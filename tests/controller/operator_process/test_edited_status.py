"""Somebody who may write a status edits one by hand: it is told so, and no GPU is handed out twice. A real operator."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from cotenant import names
from cotenant.controller.client.kube import EVENTS, PODS, TRAINING_JOBS, Reply
from cotenant.controller.informers.pod_record import read_pod
from tests.controller.operator_process.replicas import World, played

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    logs = tmp_path_factory.mktemp("edited")
    async with played(api_server, "edited", logs, nodes=1, gpus=4, run_s=lambda _: 10_000.0) as world:
        await world.start_ready()
        await world.wait(world.leader, what="the operator leads")
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def world(running: World) -> AsyncIterator[World]:
    yield running
    await running.clear()


async def write(world: World, name: str, status: dict[str, Any]) -> Reply:
    return await world.kube.patch(
        TRAINING_JOBS, name, {"status": status}, namespace=world.namespace, subresource="status"
    )


async def given(world: World) -> list[str]:
    """The GPUs of all pods that may run, once for each that has it."""
    facts = [read_pod(pod) for pod in await world.pods()]
    return sorted(
        grant.uuid
        for pod in facts
        if pod.held and pod.worker and pod.worker.placement
        for rank in pod.worker.placement.ranks
        for grant in rank.gpus
    )


async def warned(world: World, name: str, reason: str) -> str:
    """The Event of that reason about the job."""

    async def told() -> str:
        events = (await world.kube.list(EVENTS, world.namespace)).items
        said = [one for one in events if (one.get("regarding", {}).get("name"), one["reason"]) == (name, reason)]
        return str(said[-1]["note"]) if said and said[-1]["type"] == "Warning" else ""

    return str(await world.wait(told, what=f"{name} is warned of {reason}"))


async def test_a_place_taken_from_another_job_by_hand_is_given_up_before_anything_runs(world: World) -> None:
    await world.submit("owner", workers=4)
    held = await world.wait_phase("owner", "Running")
    await world.submit("thief", workers=4)
    await world.wait_phase("thief", "Pending")
    stolen = {"phase": "Starting", "attempts": 1, "placement": held["placement"]}
    assert (await write(world, "thief", stolen)).done
    assert "(beside it: edited/owner)" in await warned(world, "thief", "PlacementImpossible")
    status = await world.wait_phase("thief", "Pending")
    assert ("placement" in status, status["failures"]) == (False, 0)
    assert len(set(await given(world))) == len(await given(world)) == 4
    assert (await world.status("owner"))["attempts"] == 1


async def test_a_running_job_whose_placement_was_edited_is_placed_anew(world: World) -> None:
    await world.submit("moved", workers=2)
    before = await world.wait_phase("moved", "Running")
    edited = copy.deepcopy(before["placement"])
    for rank in edited["nodes"][0]["ranks"]:
        rank["gpus"][0]["uuid"] = f"GPU-elsewhere-{rank['rank']}"
    assert (await write(world, "moved", {"placement": edited})).done
    assert "pod moved-1-0 was given other GPUs than it names" in await warned(world, "moved", "PlacementImpossible")

    async def again() -> dict[str, Any]:
        status = await world.status("moved")
        return status if status.get("phase") == "Running" and status["attempts"] == 2 else {}

    status = await world.wait(again, what="it runs again")
    named = [gpu["uuid"] for rank in status["placement"]["nodes"][0]["ranks"] for gpu in rank["gpus"]]
    assert sorted(named) == await given(world)


async def test_an_annotation_that_somebody_rewrites_frees_nothing(world: World) -> None:
    """Whoever may edit pods may edit that: the job starts anew, and nobody gets its GPUs before its pod is gone."""
    await world.submit("rewritten", workers=4)
    await world.wait_phase("rewritten", "Running")
    other = {"node": "nowhere", "ranks": {}, "grants": {}}
    body = {"metadata": {"annotations": {names.ANNOTATION_PLACEMENT: str(other).replace("'", '"')}}}
    assert (await world.kube.patch(PODS, "rewritten-1-0", body, namespace=world.namespace)).done
    await warned(world, "rewritten", "PlacementImpossible")

    async def again() -> bool:
        status = await world.status("rewritten")
        return status.get("phase") == "Running" and status["attempts"] == 2

    await world.wait(again, what="it runs again")
    assert len(await given(world)) == 4


NONSENSE: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("nodes", lambda placement: placement.update(nodes=[])),
    ("ranks", lambda placement: placement["nodes"][0].update(ranks=[])),
    ("rank", lambda placement: placement["nodes"][0]["ranks"][0].update(rank=-1)),
    ("gpus", lambda placement: placement["nodes"][0]["ranks"][0].update(gpus=[])),
    ("memoryMiB", lambda placement: placement["nodes"][0]["ranks"][0]["gpus"][0].update(memoryMiB=-1)),
    ("computeMilli", lambda placement: placement["nodes"][0]["ranks"][0]["gpus"][0].update(computeMilli=1001)),
]


async def test_a_placement_that_makes_no_sense_does_not_get_past_the_api_server(world: World) -> None:
    await world.submit("sound")
    placement = (await world.wait_phase("sound", "Running"))["placement"]
    for field, spoil in NONSENSE:
        spoilt = copy.deepcopy(placement)
        spoil(spoilt)
        reply = await write(world, "sound", {"placement": spoilt})
        assert (reply.code, field in reply.message) == (422, True), (field, reply.message)
