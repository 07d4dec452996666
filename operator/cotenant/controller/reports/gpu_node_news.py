"""Tells the administrator what is new about GPUNodes, by an Event for each item, and by gauges.

- GPUs on which records and nodes disagree: two nodes list them, or a pod without a grant uses them. They are not handed
  out. Pods with a contract that the operator did not give hold no GPU, but are reported too.
- Nodes whose container runtime fails.
- Conditions that came or went, and resets that were asked for. The agent writes them into its status and may not write
  Events. A new leader reports those again that are not older than an Event lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from cotenant import __version__, names
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.gpunodes import GPUNodeStatus, ResetState
from cotenant.api.scalars.fields import Timestamp
from cotenant.controller.client.event_document import event_document
from cotenant.controller.client.kube import EVENTS, Kube
from cotenant.controller.cluster.nodes.cluster_nodes import ClusterNodes
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.telemetry.metrics import Metrics

EVERY_S: Final = 10.0
NAMED_FOR_S: Final = 3600.0
NOTE_CHARS_MAX: Final = 1024


class News(NamedTuple):
    """One item, and the Event about it."""

    node: str
    key: tuple[str, ...]
    """What makes it another item than before. The message of a condition may vary without a change."""
    reason: str
    text: str
    warning: bool = True


@dataclass(slots=True, kw_only=True)
class GpuNodeNews:
    kube: Kube
    cache: ObjectCache
    nodes: ClusterNodes
    metrics: Metrics
    leadership: InitVar[Leadership]
    clock: Callable[[], float] = time.time
    _told: set[tuple[str, ...]] = field(default_factory=set)

    def __post_init__(self, leadership: Leadership) -> None:
        leadership.on_lost(self.forget)

    def forget(self) -> None:
        """Show nothing while another replica leads: what this one knows of nodes is from its last decision."""
        self.metrics.disputes.clear()
        self.metrics.outdated_agents.set(0)

    async def report(self) -> None:
        """Write an Event for each item that is new. One that cannot be written counts as new next time."""
        there, now = self.cache.nodes.gpu_nodes, self.clock()
        self.metrics.disputes.labels("GPU").set(len(self._disputes()))
        self.metrics.disputes.labels("Pod").set(len(self.nodes.ungranted))
        self.metrics.outdated_agents.set(sum(is_outdated(node.status) for node in there.values()))
        changed = (one for name, node in there.items() for one in changes(name, node.status, now))
        found = {(one.node, *one.key): one for one in (*self._troubles(), *changed) if one.node in there}
        self._told &= found.keys()
        for key in sorted(found.keys() - self._told):
            _, _, reason, text, warning = found[key]
            about = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "name": found[key].node}
            at, note = datetime.now(UTC), text[:NOTE_CHARS_MAX]
            event = event_document(about, reason, note, at, instance="operator", warning=warning)
            await self.kube.create(EVENTS, event, "default")
            self._told.add(key)

    def _disputes(self) -> set[tuple[str, str]]:
        return {(node, text) for node, texts in self.nodes.disputes.items() for text in texts.values()}

    def _troubles(self) -> Iterator[News]:
        for node, text in self._disputes():
            yield News(node, (text,), "GPUDisputed", text)
        for pod in self.nodes.ungranted.values():
            text = f"pod {pod.namespace}/{pod.name} carries a contract that no decision gave it; it holds no GPU"
            yield News(pod.node, (text,), "GPUDisputed", text)
        for node, why in self.nodes.runtime_failures.nodes.items():
            text = f"node {node} takes no new job for a while: {why}; look at its driver and its container toolkit"
            yield News(node, (text,), "RuntimeFailing", text)


def is_outdated(status: GPUNodeStatus) -> bool:
    """True if the agent that wrote it has another release than this operator."""
    return status.heartbeat is not None and (status.writer is None or status.writer.version != __version__)


def changes(node: str, status: GPUNodeStatus, now: float) -> Iterator[News]:
    """Conditions and resets of one node that have changed lately."""
    for condition in status.conditions:
        if _is_news(condition.last_transition_time, now):
            bad, reason = condition.status == "True", condition.type
            if condition.type.endswith("IsolationLowered"):
                reason = "IsolationLowered" if bad else "IsolationRestored"
            key = condition.type, condition.reason, str(condition.last_transition_time)
            yield News(node, key, reason, f"{condition.type} is {condition.status}: {condition.message}", bad)
    for gpu in status.gpus:
        if gpu.reset is not None and _is_news(gpu.reset.at, now):
            text = f"reset of GPU {gpu.uuid}: {gpu.reset.message}"
            key, failed = (gpu.uuid, gpu.reset.state, str(gpu.reset.at)), gpu.reset.state is not ResetState.DONE
            yield News(node, key, f"GPUReset{gpu.reset.state}", text, failed)


def _is_news(at: Timestamp, now: float) -> bool:
    return now - (unix_seconds(at) or 0.0) < NAMED_FOR_S
