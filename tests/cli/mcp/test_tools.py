"""What an agent can ask, and what it can change, through the protocol itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.client import Client

from cotenant.controller.client import kube
from cotenant.mcp.proposals import KEPT, LIFE_S, Proposals, UnknownProposalError
from cotenant.mcp.tools import make_server
from cotenant.sdk.async_client import AsyncClient
from tests.cli.sdk.served_kube import ServedKube

QUESTIONS = {"jobs", "job", "why", "logs", "offer", "queues", "whatif"}
MANIFEST = {
    "apiVersion": "cotenant.dev/v1beta1",
    "kind": "TrainingJob",
    "metadata": {"name": "new"},
    "spec": {"queue": "team-a", "gpu": {"count": 1}, "runtime": {"command": ["true"]}},
}
WHAT_IF = "/apis/query.cotenant.dev/v1alpha1/namespaces/team-a/whatifs"


@pytest.fixture
def served() -> ServedKube:
    served = ServedKube()
    status = {"phase": "Pending", "reason": "WaitingForGPUs", "message": "None is free.", "gpus": "1"}
    document = {"metadata": {"name": "old", "namespace": "team-a", "uid": "u1"}, "spec": {}, "status": status}
    served.kube.put(kube.TRAINING_JOBS, document)
    served.answers[WHAT_IF] = {"status": {"outcome": "Starts", "asks": "1 GPU", "nodes": {"node-1": 1}}}
    return served


def agent(served: ServedKube, clock: list[float] | None = None, *, allow_writes: bool = False) -> Client:
    client = AsyncClient(served, "team-a", "team-a")  # type: ignore[arg-type]
    return Client(make_server(client, allow_writes=allow_writes, clock=lambda: (clock or [0.0])[0]))


async def said(client: Client, tool: str, **arguments: Any) -> Any:
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    content = found.structured_content
    assert content is not None
    return content["result"] if set(content) == {"result"} else content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    found = await client.call_tool(tool, arguments)
    assert found.is_error
    return json.dumps([one.model_dump(mode="json") for one in found.content])


async def test_the_connection_ends_with_the_server(served: ServedKube) -> None:
    async with agent(served):
        assert not served.is_closed
    assert served.is_closed


async def test_nothing_that_changes_anything_exists_unless_a_person_allowed_it(served: ServedKube) -> None:
    async with agent(served) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == QUESTIONS
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert "Unknown tool" in await refused(client, "apply", proposal="x")
    async with agent(served, allow_writes=True) as client:
        tools = (await client.list_tools()).tools
        writing = {tool.name for tool in tools if tool.annotations and not tool.annotations.read_only_hint}
        assert ({tool.name for tool in tools} - QUESTIONS, writing) == (
            {"propose_submit", "propose_change", "apply"},
            {"apply"},
        )


async def test_questions_are_answered_in_the_operators_words(served: ServedKube) -> None:
    async with agent(served) as client:
        assert await said(client, "jobs") == [
            {
                "name": "old",
                "phase": "Pending",
                "reason": "WaitingForGPUs",
                "message": "None is free.",
                "gpus": "1",
            }
        ]
        served.answers["/apis/query.cotenant.dev/v1alpha1/namespaces/team-a/explanations/old"] = {
            "status": {"standing": "Waiting", "position": 1}
        }
        assert await said(client, "why", name="old") == {"standing": "Waiting", "position": 1}
        assert (await said(client, "whatif", manifest=MANIFEST))["outcome"] == "Starts"
        assert (await said(client, "whatif", job="old", change={"spec.gpu.count": 1}))["outcome"] == "Starts"
        assert served.asked[-1][1]["spec"] == {"job": "old", "change": {"spec.gpu.count": 1}}
        assert "not found" in await refused(client, "job", name="absent")
        served.kube.put(kube.TRAINING_JOBS, {"metadata": {"name": "new", "namespace": "team-a"}, "spec": {}})
        assert (await said(client, "job", name="new"))["message"].startswith("The operator has not looked at it yet")
        assert "give either" in await refused(client, "whatif")


async def test_a_change_is_shown_first_and_then_made_as_it_was_shown(served: ServedKube) -> None:
    clock = [0.0]
    async with agent(served, clock, allow_writes=True) as client:
        shown = await said(client, "propose_submit", manifest=MANIFEST)
        assert shown["wouldDo"]["answer"]["outcome"] == "Starts"
        assert served.kube.stored(kube.TRAINING_JOBS, "new", "team-a") is None
        assert await said(client, "apply", proposal=shown["proposal"]) == {"submitted": "team-a/new"}
        assert served.kube.stored(kube.TRAINING_JOBS, "new", "team-a") is not None
        assert "applied once" in await refused(client, "apply", proposal=shown["proposal"])
        assert "already exists" in await refused(client, "propose_submit", manifest=MANIFEST)
        stop = await said(client, "propose_change", name="old", action="stop")
        clock[0] = LIFE_S + 1
        assert "there is no proposal" in await refused(client, "apply", proposal=stop["proposal"])
        stop = await said(client, "propose_change", name="old", action="stop")
        assert await said(client, "apply", proposal=stop["proposal"]) == {"stop": "team-a/old"}
        stored = served.kube.stored(kube.TRAINING_JOBS, "old", "team-a")
        assert stored is not None
        assert stored["spec"] == {"suspend": True}
        assert "one of stop, resume, delete" in await refused(client, "propose_change", name="old", action="burn")


def test_proposals_that_pile_up_give_way() -> None:
    async def change() -> dict[str, Any]:
        return {}

    proposals = Proposals()
    names = [proposals.add(change, 0.0) for _ in range(KEPT + 1)]
    with pytest.raises(UnknownProposalError):
        proposals.take(names[0], 1.0)
    assert proposals.take(names[-1], 1.0) is change
