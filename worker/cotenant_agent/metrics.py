"""The agent's figures for Prometheus, for callers who may read them.

The figures are made from the latest view at the moment of the scrape, so a pod that has left leaves no stale series.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cotenant.serving.metrics_access import Access
from cotenant_agent.agent import Agent
from cotenant_agent.enforcement.gpu_holders import Evidence
from cotenant_agent.gpus.readings import MIB
from cotenant_agent.http_server import Answer, Respond
from cotenant_agent.reports.dcgm_metrics import dcgm_metrics
from cotenant_agent.reports.isolation_conditions import KINDS
from cotenant_agent.reports.node_status import unhealthy_reason
from cotenant_agent.reports.node_view import NodeView

AskAccess = Callable[[str], Access]
"""Authorization header → answer."""


class NodeViewCollector:
    def __init__(self, agent: Agent, *, dcgm_names: bool = True) -> None:
        self._agent, self._dcgm_names = agent, dcgm_names

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
        yield isolation_metric(self._agent.conditions)
        if self._dcgm_names:
            yield from dcgm_metrics(view, self._agent.node)


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
        healthy.add_metric(name, int(not unhealthy_reason(view, gpu)))
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
    unlisted = len(view.inventory.unreadable)
    yield GaugeMetricFamily("cotenant_gpus_unlisted", "GPUs that the driver finds and cannot list", value=unlisted)
    yield from (total, used, load, healthy, slow, ecc, xids)


def isolation_metric(conditions: Iterable[Mapping[str, str]]) -> Metric:
    lowered = GaugeMetricFamily(
        "cotenant_isolation_lowered", "1: the node holds less than it did, by condition", labels=["condition"]
    )
    for condition in conditions:
        if condition["type"] in KINDS.values():
            lowered.add_metric([condition["type"]], int(condition["status"] == "True"))
    return lowered


def pod_metrics(view: NodeView) -> Iterator[Metric]:
    labels = ["uuid", "namespace", "pod", "pod_uid", "training_job"]
    used = GaugeMetricFamily("cotenant_pod_gpu_memory_used_bytes", "Memory that a pod uses of a GPU", labels=labels)
    quota = GaugeMetricFamily(
        "cotenant_pod_gpu_memory_quota_bytes", "Memory that a pod may use of a GPU", labels=labels
    )
    load = GaugeMetricFamily(
        "cotenant_pod_gpu_utilization_ratio", "Part of a GPU's multiprocessors that a pod uses", labels=labels
    )
    for on_gpu, percent in view.sm_percent.items():
        if (holder := view.grants.get(on_gpu.pod_uid)) is not None:
            load.add_metric([on_gpu.gpu_uuid, holder.namespace, holder.pod, on_gpu.pod_uid, holder.job], percent / 100)
    foreign = GaugeMetricFamily(
        "cotenant_gpu_foreign_memory_bytes", "Memory in use by what the operator did not place", labels=["uuid"]
    )
    for uuid, uses in view.uses.items():
        foreign.add_metric([uuid], sum(use.memory_mib for use in uses if use.foreign) * MIB)
        for use in uses:
            grant = view.grants.get(use.pod_uid)
            if grant is not None:
                used.add_metric([uuid, grant.namespace, grant.pod, use.pod_uid, grant.job], use.memory_mib * MIB)
    for grant in view.grants.values():
        for uuid, mib in grant.quota_mib.items():
            quota.add_metric([uuid, grant.namespace, grant.pod, grant.pod_uid, grant.job], mib * MIB)
    over = GaugeMetricFamily("cotenant_gpu_quota_violations", "Pods over their quota now", value=len(view.violations))
    strangers = GaugeMetricFamily(
        "cotenant_gpu_strangers", "Pods and others on a GPU without a grant of it now", value=len(view.strangers)
    )
    holders = GaugeMetricFamily("cotenant_gpu_holders", "Pods that hold GPUs, by what shows it", labels=["evidence"])
    counted = Counter(holder.evidence for holder in (view.holders or {}).values())
    for evidence in Evidence:
        holders.add_metric([evidence.value], counted[evidence])
    yield from (used, load, quota, foreign, over, strangers, holders)


def paths(agent: Agent, access: AskAccess | None, *, dcgm_names: bool = True) -> dict[str, Respond]:
    """The path `/metrics`. Without `access`, everybody may read it."""
    registry = CollectorRegistry()
    registry.register(NodeViewCollector(agent, dcgm_names=dcgm_names))

    def scrape(authorization: str) -> Answer:
        answer = Access.ALLOWED if access is None else access(authorization)
        if answer is Access.ALLOWED:
            return Answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
        return Answer(answer, f"{answer.sentence}\n".encode(), headers={"WWW-Authenticate": "Bearer"})

    return {"/metrics": scrape}
