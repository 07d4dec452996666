"""What NVLink joins, from the driver's library through the agent's report and the operator's view to the GPUs of a job.

Only the library is played: who reads it, publishes, parses, counts and decides is the product.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import GPU_NODES, NAMESPACES, NODES, QUEUES
from cotenant.core.model.plan import Admit
from cotenant.core.scheduling.scheduler import schedule
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.gpus.capabilities import detect
from cotenant_agent.gpus.readings import Gpu, GpuInventory, GpuSample
from cotenant_agent.reports import node_status
from cotenant_agent.reports.node_view import NodeObserver
from tests.controller.builders import T0, ObservedCluster, new_cluster
from tests.controller.cluster.cluster_view.view_of import NODE, put_job

GIB = 1 << 30
GPUS = [f"gpu {index} GPU-{index}|NVIDIA H100 80GB HBM3|{80 * GIB}|0|{index}" for index in range(4)]
QUEUE = {
    "apiVersion": names.API_VERSION,
    "kind": "Queue",
    "metadata": {"name": "red", "uid": "q", "resourceVersion": "1"},
    "spec": {"namespaces": ["red"], "quotas": [{"guaranteed": 4, "limit": 4}]},
}


class Node:
    """A host with a driver and an agent, and an operator that sees what it reports."""

    def __init__(self, start: Callable[..., Any]) -> None:
        self.driver, self.cluster, self.version = start(*GPUS), new_cluster(), 0
        self.cluster.cache.put(NODES, NODE)
        self.cluster.cache.put(NAMESPACES, {"metadata": {"name": "red", "uid": "s", "resourceVersion": "1"}})
        self.cluster.cache.put(QUEUES, QUEUE)

    def link(self, *pairs: str) -> None:
        """NVLink joins these from now on, and the agent has looked and reported."""
        self.driver.state(*GPUS, *(f"linked {pair}" for pair in pairs))
        self.driver.ask("a minute passes")
        found = self.driver.ask("inventory")
        gpus = tuple(Gpu(**one | {"peers": tuple(one["peers"])}) for one in found.pop("gpus"))
        observer = NodeObserver(
            GpuInventory(gpus=gpus, **found),
            detect(Path("/nowhere"), runtime_class=True),
            owner=lambda pid: pytest.fail(str(pid)),
            attributing=True,
        )
        self.version += 1
        status = node_status.build(
            observer.observe([GpuSample(uuid=gpu.uuid, used_mib=0) for gpu in gpus], PodsOnNode(), T0, ())
        )
        metadata = {"name": "n1", "uid": "g", "resourceVersion": str(self.version)}
        document = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": metadata, "status": status}
        self.cluster.cache.put(GPU_NODES, document)


def gpus_given(cluster: ObservedCluster) -> list[str]:
    """The GPUs that the next decision gives to the job that waits."""
    cluster.sync(T0)
    admitted = [one for one in schedule(cluster.snapshot(T0)).actions if isinstance(one, Admit)]
    return [gpu.uuid for one in admitted for gpu in one.placement.nodes[0].ranks[0].gpus]


def test_a_worker_of_two_gpus_gets_those_that_are_joined_now(nvml: Callable[..., Any]) -> None:
    node = Node(nvml)
    put_job(node.cluster, workers=1, gpu={"count": 2})
    given = []
    for pairs in (["0 1", "2 3"], ["2 3"], ["1 2"], []):
        node.link(*pairs)
        given.append(gpus_given(node.cluster))
    assert given == [["GPU-0", "GPU-1"], ["GPU-2", "GPU-3"], ["GPU-1", "GPU-2"], ["GPU-0", "GPU-1"]]
