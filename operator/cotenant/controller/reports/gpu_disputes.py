"""Tells the administrator about GPUs on which records and nodes disagree: Events on the GPUNode, and gauges.

A GPU that two nodes list, or that a pod without a grant uses, is not handed out. Pods with a contract that the operator
did not give hold no GPU, but are reported too.
"""

from __future__ import annotations

import asyncio
import logging

from cotenant.controller.client.kube import Kube
from cotenant.controller.cluster.nodes.cluster_nodes import ClusterNodes
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.reports.gpu_node_event import News, NewsOnce
from cotenant.controller.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

EVERY_S = 10.0


class GpuDisputeReporter:
    def __init__(self, kube: Kube, cache: ObjectCache, nodes: ClusterNodes, metrics: Metrics) -> None:
        self._cache, self._nodes, self._metrics = cache, nodes, metrics
        self._news = NewsOnce[tuple[str, str]](kube)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.report()
            except Exception:  # it tells, and holds nobody up
                self._metrics.failures_contained.labels("GPUDisputes").inc()
                log.exception("disputes about GPUs were not named")

    async def report(self) -> None:
        """Write an Event for each dispute that is new."""
        disputes = {(node, text) for node, texts in self._nodes.disputes.items() for text in texts.values()}
        ungranted = list(self._nodes.ungranted.values())
        self._metrics.disputes.labels("GPU").set(len(disputes))
        self._metrics.disputes.labels("Pod").set(len(ungranted))
        for pod in ungranted:
            text = f"pod {pod.namespace}/{pod.name} carries a contract that no decision gave it; it holds no GPU"
            disputes.add((pod.node, text))
        failing = {
            (node, f"node {node} takes no new job for a while: {why}; look at its driver and its container toolkit")
            for node, why in self._nodes.runtime_failures.nodes.items()
        }
        found = [*((one, "GPUDisputed") for one in disputes), *((one, "RuntimeFailing") for one in failing)]
        there = self._cache.nodes.gpu_nodes
        await self._news.write(
            {(node, text): News(node, reason, text) for (node, text), reason in found if node in there}
        )
