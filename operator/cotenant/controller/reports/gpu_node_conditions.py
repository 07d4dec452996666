"""Tells the administrator about changes of a GPUNode: conditions that came or went, resets that were asked for.

The agent writes them into its status and may not write Events. Each replica that leads reports a change once, unless it
is older than an Event lives.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from cotenant import __version__
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.gpunodes import GPUNodeStatus, ResetState
from cotenant.api.scalars.fields import Timestamp
from cotenant.controller.client.kube import Kube
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.reports.gpu_node_event import News, NewsOnce
from cotenant.controller.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

EVERY_S: Final = 10.0
NAMED_FOR_S: Final = 3600.0
Key: TypeAlias = tuple[str, str, str, str]
"""Node, condition, how it changed and when. The message is left out, because it may vary without a change."""


class GpuNodeConditionReporter:
    def __init__(
        self, kube: Kube, cache: ObjectCache, metrics: Metrics, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._cache, self._metrics, self._clock = cache, metrics, clock
        self._news = NewsOnce[Key](kube)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.report()
            except Exception:  # it tells, and holds nobody up
                self._metrics.failures_contained.labels("GPUNodeConditions").inc()
                log.exception("conditions of GPUNodes were not named")

    async def report(self) -> None:
        """Write an Event for each change that is new."""
        now = self._clock()
        nodes = self._cache.nodes.gpu_nodes
        self._metrics.outdated_agents.set(sum(is_outdated(node.status) for node in nodes.values()))
        found = {
            (name, *key): News(name, *news) for name, node in nodes.items() for key, news in changes(node.status, now)
        }
        await self._news.write(found)


def is_outdated(status: GPUNodeStatus) -> bool:
    """True if the agent that wrote it has another release than this operator."""
    return status.heartbeat is not None and (status.writer is None or status.writer.version != __version__)


def changes(status: GPUNodeStatus, now: float) -> Iterator[tuple[tuple[str, str, str], tuple[str, str, bool]]]:
    """Changes of one node: (what, how, when) → reason of the Event, its text, whether it is a warning."""
    for condition in status.conditions:
        if _is_news(condition.last_transition_time, now):
            bad = condition.status == "True"
            text = f"{condition.type} is {condition.status}: {condition.message}"
            reason = condition.type
            if condition.type.endswith("IsolationLowered"):
                reason = "IsolationLowered" if bad else "IsolationRestored"
            yield (condition.type, condition.reason, str(condition.last_transition_time)), (reason, text, bad)
    for gpu in status.gpus:
        if gpu.reset is not None and _is_news(gpu.reset.at, now):
            text = f"reset of GPU {gpu.uuid}: {gpu.reset.message}"
            done = gpu.reset.state is ResetState.DONE
            yield (gpu.uuid, gpu.reset.state, str(gpu.reset.at)), (f"GPUReset{gpu.reset.state}", text, not done)


def _is_news(at: Timestamp, now: float) -> bool:
    return now - (unix_seconds(at) or 0.0) < NAMED_FOR_S
