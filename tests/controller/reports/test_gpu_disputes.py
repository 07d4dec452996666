"""What books and nodes disagree on is named to the administrator, each once."""

from __future__ import annotations

from typing import Any

from cotenant import names
from cotenant.controller.client.kube import EVENTS, GPU_NODES, NODES, PODS
from cotenant.controller.reports.gpu_disputes import GpuDisputeReporter
from cotenant.controller.telemetry.metrics import Metrics
from tests.controller.builders import T0, new_cluster, pod_document
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

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
    cluster, kube, metrics = new_cluster(), FakeKube(), Metrics()
    reporter = GpuDisputeReporter(kube, cluster.cache, cluster.view.nodes, metrics)
    for name in ("n1", "n2"):
        metadata = {"name": name, "uid": f"node-{name}", "resourceVersion": "1"}
        cluster.cache.put(NODES, {"metadata": metadata, "status": READY})
        cluster.cache.put(GPU_NODES, gpu_node(name, "1", "a"))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.sync(T0)
    for _ in range(2):
        await reporter.report()
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
        await reporter.report()
    assert await notes(kube) == sorted([*both, both[0], both[2]])


async def test_one_that_could_not_be_named_is_named_later() -> None:
    cluster, kube = new_cluster(), FakeKube()
    reporter = GpuDisputeReporter(kube, cluster.cache, cluster.view.nodes, Metrics())
    cluster.cache.put(GPU_NODES, gpu_node("n1", "1", "a"))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.sync(T0)
    kube.faults.add(Fault(call="POST events/*", lost="request"))
    await reporter.report()
    assert await notes(kube) == []
    await reporter.report()
    assert len(await notes(kube)) == 1
