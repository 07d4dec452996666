"""The agent's HTTP server: /metrics for Prometheus, /healthz and /readyz for the kubelet.

The figures are made from the latest view at the moment of the scrape, so a pod that left leaves no stale series.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cotenant_agent.agent import Agent
from cotenant_agent.enforcement.gpu_holders import Evidence
from cotenant_agent.reports.node_view import NodeView

MIB: Final = 1024 * 1024
READY_AGE_S: Final = 30.0
LIVE_AGE_S: Final = 180.0
"""A driver call that hangs this long needs a new process, if that helps at all."""


class NodeViewCollector:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterator[Metric]:
        writes = CounterMetricFamily("cotenant_agent_status_writes", "Patches of GPUNode.status that succeeded")
        writes.add_metric([], self._agent.writes)
        yield writes
        failures = CounterMetricFamily(
            "cotenant_agent_failures", "Failures that the agent contained to one step or pod", labels=["step"]
        )
        for step, count in self._agent.contained.counts().items():
            failures.add_metric([step.value], count)
        yield failures
        view = self._agent.view
        if view is None:
            return
        yield GaugeMetricFamily(
            "cotenant_agent_look_seconds", "How long the last look at all GPUs took", value=self._agent.poll_duration_s
        )
        yield GaugeMetricFamily(
            "cotenant_agent_look_age_seconds", "Since the last look", value=max(0.0, time.time() - view.taken_at)
        )
        yield from gpu_metrics(view)
        yield from pod_metrics(view)


def gpu_metrics(view: NodeView) -> Iterator[Metric]:
    labels = ["uuid", "class", "simulated"]
    total = GaugeMetricFamily("cotenant_gpu_memory_bytes", "Memory of the GPU", labels=labels)
    used = GaugeMetricFamily("cotenant_gpu_memory_used_bytes", "Memory in use, as the driver says", labels=labels)
    load = GaugeMetricFamily("cotenant_gpu_utilization_ratio", "Share of time in which a kernel ran", labels=labels)
    healthy = GaugeMetricFamily("cotenant_gpu_healthy", "1: takes new work", labels=labels)
    slow = GaugeMetricFamily(
        "cotenant_gpu_reported_slow", "1: a job found it far slower than its others", labels=labels
    )
    ecc = GaugeMetricFamily(
        "cotenant_gpu_ecc_uncorrected", "Uncorrected memory errors since the driver came", labels=labels
    )
    xids = CounterMetricFamily("cotenant_gpu_xids", "Critical events of the driver", labels=["uuid", "xid"])
    for gpu in view.inventory.gpus:
        name = [gpu.uuid, gpu.gpu_class, str(view.inventory.simulated).lower()]
        total.add_metric(name, gpu.memory_mib * MIB)
        healthy.add_metric(name, 0 if gpu.mig or view.health.reason(gpu.uuid) else 1)
        slow.add_metric(name, int(gpu.uuid in view.health.slow))
        sample = view.samples.get(gpu.uuid)
        if sample is not None and sample.used_mib is not None:
            used.add_metric(name, sample.used_mib * MIB)
        if sample is not None and sample.utilization_percent is not None:
            load.add_metric(name, sample.utilization_percent / 100)
        if sample is not None and sample.signs.ecc_uncorrected is not None:
            ecc.add_metric(name, sample.signs.ecc_uncorrected)
    for (uuid, code), count in view.xids.items():
        xids.add_metric([uuid, str(code)], count)
    yield from (total, used, load, healthy, slow, ecc, xids)


def pod_metrics(view: NodeView) -> Iterator[Metric]:
    labels = ["uuid", "namespace", "pod", "pod_uid"]
    used = GaugeMetricFamily("cotenant_pod_gpu_memory_used_bytes", "Memory that a pod uses of a GPU", labels=labels)
    quota = GaugeMetricFamily(
        "cotenant_pod_gpu_memory_quota_bytes", "Memory that a pod may use of a GPU", labels=labels
    )
    foreign = GaugeMetricFamily(
        "cotenant_gpu_foreign_memory_bytes", "Memory in use by what the operator did not place", labels=["uuid"]
    )
    for uuid, uses in view.uses.items():
        foreign.add_metric([uuid], sum(use.memory_mib for use in uses if use.foreign) * MIB)
        for use in uses:
            grant = view.grants.get(use.pod_uid)
            if grant is not None:
                used.add_metric([uuid, grant.namespace, grant.pod, use.pod_uid], use.memory_mib * MIB)
    for grant in view.grants.values():
        for uuid, mib in grant.quota_mib.items():
            quota.add_metric([uuid, grant.namespace, grant.pod, grant.pod_uid], mib * MIB)
    over = GaugeMetricFamily("cotenant_gpu_quota_violations", "Pods over their quota now", value=len(view.violations))
    strangers = GaugeMetricFamily(
        "cotenant_gpu_strangers", "Pods and others on a GPU without a grant of it now", value=len(view.strangers)
    )
    holders = GaugeMetricFamily("cotenant_gpu_holders", "Pods that hold GPUs, by what shows it", labels=["evidence"])
    counted = Counter(holder.evidence for holder in (view.holders or {}).values())
    for evidence in Evidence:
        holders.add_metric([evidence.value], counted[evidence])
    yield from (used, quota, foreign, over, strangers, holders)


def sample_age_s(agent: Agent, started: float, now: float) -> float:
    return now - (agent.view.taken_at if agent.view is not None else started)


def serve(agent: Agent, address: tuple[str, int]) -> ThreadingHTTPServer:
    """Start the server in a thread of its own and return it; it ends by its own shutdown."""
    registry = CollectorRegistry()
    registry.register(NodeViewCollector(agent))
    started = time.time()

    class MetricsHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            age = sample_age_s(agent, started, time.time())
            if self.path == "/metrics":
                self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
            elif self.path == "/healthz":
                self._answer(200 if age < LIVE_AGE_S else 503, f"last look {age:.0f} s ago\n".encode())
            elif self.path == "/readyz":
                ready = agent.writes > 0 and age < READY_AGE_S
                self._answer(200 if ready else 503, f"last look {age:.0f} s ago, {agent.writes} writes\n".encode())
            else:
                self._answer(404, b"/metrics, /healthz, /readyz\n")

        def _answer(self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Log nothing: probes come every few seconds."""

    server = ThreadingHTTPServer(address, MetricsHandler)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server
