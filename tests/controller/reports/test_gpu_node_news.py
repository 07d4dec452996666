"""What is new about a GPUNode is an Event, once: disputes about its GPUs, its conditions, answers to resets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cotenant import __version__, names
from cotenant.api.resources.gpunodes import GPUNodeStatus
from cotenant.controller.client.kube import EVENTS, GPU_NODES, NODES, PODS, UnreachableError
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.reports.gpu_node_news import NOTE_CHARS_MAX, GpuNodeNews, is_outdated
from cotenant.controller.telemetry.metrics import Metrics
from tests.controller.builders import T0, ObservedCluster, new_cluster, pod_document
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

AT = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""
AT_TEXT = "2026-01-01T00:00:00Z"
FELL = {
    "type": "MemoryIsolationLowered",
    "status": "True",
    "reason": "WasHard",
    "message": "Hard before, now Watched: another driver",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
ROSE = FELL | {
    "status": "False", "reason": "AsBefore", "message": "Hard", "lastTransitionTime": "2026-01-01T00:05:00Z"
}  # fmt: skip


def reporter(
    cluster: ObservedCluster,
    kube: FakeKube,
    metrics: Metrics,
    clock: Callable[[], float] = lambda: AT,
    leadership: Leadership | None = None,
) -> GpuNodeNews:
    return GpuNodeNews(
        kube=kube,
        cache=cluster.cache,
        nodes=cluster.view.nodes,
        metrics=metrics,
        leadership=leadership or Leadership(lambda: True),
        clock=clock,
    )


class World:
    def __init__(self) -> None:
        self.cluster, self.kube, self.now, self.version = new_cluster(), FakeKube(), AT + 1.0, 0
        self.reporter = reporter(self.cluster, self.kube, Metrics(), lambda: self.now)

    async def after(self, *conditions: dict[str, Any], gpus: Sequence[Any] = ()) -> list[tuple[str, str, str]]:
        self.version += 1
        metadata = {"name": "n1", "uid": "u", "resourceVersion": str(self.version)}
        document = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": metadata}
        self.cluster.cache.put(GPU_NODES, document | {"status": {"conditions": list(conditions), "gpus": list(gpus)}})
        await self.reporter.report()
        found = (await self.kube.list(EVENTS)).items
        return sorted((one["reason"], one["type"], one["message"]) for one in found)


FALL = ("IsolationLowered", "Warning", "MemoryIsolationLowered is True: Hard before, now Watched: another driver")
RISE = ("IsolationRestored", "Normal", "MemoryIsolationLowered is False: Hard")


async def test_each_change_is_an_event_and_other_words_are_none() -> None:
    world = World()
    assert await world.after(FELL) == [FALL]
    assert await world.after(FELL | {"message": "Hard before, now Watched: no toolkit"}) == [FALL]
    assert await world.after(ROSE) == [FALL, RISE]
    fell_again = FELL | {"lastTransitionTime": "2026-01-01T00:06:00Z"}
    assert await world.after(fell_again) == [FALL, FALL, RISE]


@pytest.mark.parametrize(("after_s", "named"), [(3599.0, [FALL]), (3601.0, [])])
async def test_a_replica_that_begins_to_lead_names_what_is_not_old_news(after_s: float, named: list[Any]) -> None:
    world = World()
    world.now = AT + after_s
    assert await world.after(FELL) == named


async def test_one_that_could_not_be_named_is_named_later() -> None:
    world = World()
    world.kube.faults.add(Fault(call="POST events/*", lost="request"))
    with pytest.raises(UnreachableError):
        await world.after(FELL)
    assert await world.after(FELL) == [FALL]


@pytest.mark.parametrize(("state", "kind"), [("Done", "Normal"), ("Refused", "Warning"), ("Failed", "Warning")])
async def test_the_answer_to_a_reset_is_an_event_once(state: str, kind: str) -> None:
    world = World()
    reset = {"state": state, "message": "as it came", "at": "2026-01-01T00:00:00Z"}
    gpus = [{"uuid": "GPU-a", "index": 0, "class": "H100", "memoryMiB": 81920, "reset": reset}]
    for _ in range(2):
        assert await world.after(gpus=gpus) == [(f"GPUReset{state}", kind, "reset of GPU GPU-a: as it came")]


async def test_an_event_names_the_node_and_is_as_long_as_may_be() -> None:
    world = World()
    await world.after(FELL | {"message": "x" * 5000})
    (found,) = (await world.kube.list(EVENTS)).items
    assert found["involvedObject"] == {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "name": "n1"}
    assert (found["metadata"]["namespace"], len(found["message"])) == ("default", NOTE_CHARS_MAX)


UNREADABLE = FELL | {"type": "GPUsUnreadable", "reason": "AgentDoesNotStart", "message": "no driver"}


async def test_gpus_that_cannot_be_read_are_an_event_of_that_name() -> None:
    assert await World().after(UNREADABLE) == [("GPUsUnreadable", "Warning", "GPUsUnreadable is True: no driver")]


@pytest.mark.parametrize(
    ("status", "outdated"),
    [
        ({}, False),
        ({"heartbeat": AT_TEXT}, True),
        ({"heartbeat": AT_TEXT, "writer": {"source": "nvidia", "version": "0.0.1"}}, True),
        ({"heartbeat": AT_TEXT, "writer": {"source": "nvidia", "version": __version__}}, False),
    ],
    ids=["never heard", "of a release that did not say it", "of another release", "of this release"],
)
def test_agents_of_another_release_are_counted(status: dict[str, Any], outdated: bool) -> None:
    assert is_outdated(GPUNodeStatus.model_validate(status)) == outdated


READY = {
    "allocatable": {"cpu": "8", "memory": "16Gi"},
    "conditions": [{"type": "Ready", "status": "True"}],
}


async def notes(kube: FakeKube) -> list[tuple[str, str]]:
    items: list[dict[str, Any]] = list((await kube.list(EVENTS)).items)
    return sorted((one["involvedObject"]["name"], one["message"]) for one in items)


def gpu_node(name: str, version: str, *uuids: str) -> dict[str, Any]:
    gpus = [{"uuid": uuid, "index": i, "class": "H100", "memoryMiB": 81920} for i, uuid in enumerate(uuids)]
    metadata = {"name": name, "uid": f"gpunode-{name}", "resourceVersion": version}
    status = {"heartbeat": "2026-01-01T00:00:00Z", "gpus": gpus}
    return {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": metadata, "status": status}


async def test_each_dispute_is_an_event_on_its_node_and_a_gauge_once_and_again_when_it_comes_back() -> None:
    cluster, kube, metrics, leadership = new_cluster(), FakeKube(), Metrics(), Leadership(lambda: True)
    news = reporter(cluster, kube, metrics, leadership=leadership)
    for name in ("n1", "n2"):
        metadata = {"name": name, "uid": f"node-{name}", "resourceVersion": "1"}
        cluster.cache.put(NODES, {"metadata": metadata, "status": READY})
        cluster.cache.put(GPU_NODES, gpu_node(name, "1", "a"))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.sync(T0)
    for _ in range(2):
        await news.report()
    both = [
        ("n1", "GPU a is listed by nodes n1 and n2 at once"),
        ("n1", "pod red/train-1-0 carries a contract that no decision gave it; it holds no GPU"),
        ("n2", "GPU a is listed by nodes n2 and n1 at once"),
    ]
    assert await notes(kube) == both
    exposed = metrics.exposition().decode()
    assert ('cotenant_gpu_disputes{kind="GPU"} 2.0' in exposed, 'cotenant_gpu_disputes{kind="Pod"} 1.0' in exposed) == (
        True,
        True,
    )
    for version, uuids in (("2", ["b"]), ("3", ["a"])):
        cluster.cache.put(GPU_NODES, gpu_node("n2", version, *uuids))
        cluster.sync(T0)
        await news.report()
    assert await notes(kube) == sorted([*both, both[0], both[2]])
    leadership.changed(False)
    shown = [line for line in metrics.exposition().decode().splitlines() if line.startswith("cotenant_gpu_disputes")]
    assert shown == [], "the next leader counts them"
