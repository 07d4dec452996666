"""Faults and the watch of the double of the API server; `test_kube` holds its rules against the real one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import (
    PODS,
    Document,
    FencedError,
    Kube,
    Outcome,
    Reply,
    Resource,
    UnreachableError,
)
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

POD = {"metadata": {"name": "one"}, "spec": {"nodeName": "n1"}}


async def create(kube: Kube) -> object:
    return await kube.create(PODS, POD, "red")


async def delete(kube: Kube) -> object:
    return await kube.delete(PODS, "one", "red", grace_s=0)


async def label(kube: Kube) -> object:
    return await kube.patch(PODS, "one", {"metadata": {"labels": {"a": "1"}}}, namespace="red")


@pytest.mark.parametrize(
    ("lost", "there", "arrived"), [("answer", True, ["POST pods/one"]), ("request", False, [])], ids=str
)
async def test_a_lost_answer_leaves_the_write_and_a_lost_request_does_not(
    lost: str, there: bool, arrived: list[str]
) -> None:
    kube = FakeKube(Fault(call="POST pods/*", lost=lost))  # type: ignore[arg-type]  # mypy widens parameters to str
    with pytest.raises(UnreachableError, match=f"the {lost} was lost"):
        await create(kube)
    assert (kube.stored(PODS, "one", "red") is not None, kube.calls) == (there, arrived)


async def test_only_the_nth_call_is_hit() -> None:
    kube = FakeKube(Fault(call="GET pods/*", nth=2, answer=Reply(Outcome.MISSING)))
    await create(kube)
    assert [(await kube.get(PODS, "one", "red")).outcome for _ in range(3)] == [
        Outcome.DONE,
        Outcome.MISSING,
        Outcome.DONE,
    ]


async def test_another_client_may_write_before_a_call_and_a_stale_guard_notices() -> None:
    kube = FakeKube()
    made = await kube.create(PODS, POD, "red")
    kube.faults.add(Fault(call="PATCH *", first=lambda: kube.put(PODS, made.document | {"spec": {"nodeName": "n2"}})))
    guarded = {
        "metadata": {"resourceVersion": made.document["metadata"]["resourceVersion"]},
        "spec": {"nodeName": "n3"},
    }
    assert (await kube.patch(PODS, "one", guarded, namespace="red")).outcome is Outcome.CONFLICT


async def test_leadership_that_is_lost_before_a_write_holds_it_back() -> None:
    leads = [True]
    kube = FakeKube(
        Fault(call="DELETE *", first=lambda: leads.append(False)), before_write=Fence(lambda: leads[-1]).check
    )
    await create(kube)
    with pytest.raises(FencedError, match="DELETE pods/one was not sent"):
        await delete(kube)
    assert ((await kube.get(PODS, "one", "red")).done, kube.calls) == (True, ["POST pods/one", "GET pods/one"])


async def test_the_watch_hands_on_every_change_once_and_in_order() -> None:
    kube = FakeKube()
    steps: list[Callable[[Kube], Awaitable[object]]] = [create, label, label, delete, create]
    for step in steps:
        await step(kube)
    seen: list[tuple[str, int, bool]] = []

    def put(resource: Resource, document: Document, deleted: bool) -> None:
        seen.append((document["metadata"]["uid"], int(document["metadata"]["resourceVersion"]), deleted))

    kube.deliver(put)
    kube.deliver(put)
    assert seen == [("uid-1", 1, False), ("uid-1", 2, False), ("uid-1", 3, True), ("uid-4", 4, False)]


async def test_documents_are_copies() -> None:
    kube = FakeKube()
    reply = await kube.create(PODS, POD, "red")
    reply.document["spec"]["nodeName"] = "other"
    assert (await kube.get(PODS, "one", "red")).document["spec"] == {"nodeName": "n1"}
