"""Names to the administrator what has changed on a GPUNode: an Event for each condition that came or went.

The agent writes conditions and has no right to write Events. A change is named once by each replica that leads, and
not at all when it is older than an Event lives.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.controller.client.kube import EVENTS, FencedError, Kube, UnreachableError
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.reports.gpu_node_event import gpu_node_event
from cotenant.controller.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

EVERY_S: Final = 10.0
NAMED_FOR_S: Final = 3600.0


class GpuNodeConditionReporter:
    def __init__(
        self, kube: Kube, cache: ObjectCache, metrics: Metrics, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._kube, self._cache, self._metrics, self._clock = kube, cache, metrics, clock
        self._named: set[tuple[str, str, str, str]] = set()
        """Node, type, reason and time of the change: the words may change while nothing comes or goes."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.report()
            except Exception:  # it tells, and holds nobody up
                self._metrics.failures_contained.labels("GPUNodeConditions").inc()
                log.exception("conditions of GPUNodes were not named")

    async def report(self) -> None:
        """Write an Event for each condition that is not as it was the last time."""
        now = self._clock()
        there = {
            (name, condition.type, condition.reason, str(condition.last_transition_time)): condition
            for name, node in self._cache.nodes.gpu_nodes.items()
            for condition in node.status.conditions
            if now - (unix_seconds(condition.last_transition_time) or 0.0) < NAMED_FOR_S
        }
        for key in sorted(there.keys() - self._named):
            condition = there[key]
            text = f"{condition.type} is {condition.status}: {condition.message}"
            reason, warning = event_reason(condition)
            try:
                await self._kube.create(
                    EVENTS, gpu_node_event(key[0], reason, text, datetime.now(UTC), warning=warning), "default"
                )
            except FencedError:
                return  # the replica that leads names them
            except UnreachableError as error:
                log.warning("a condition of a GPUNode was not named: %s", error)
                return
            self._named.add(key)
        self._named &= there.keys()


def event_reason(condition: Condition) -> tuple[str, bool]:
    """The reason of its Event, and whether that is a warning."""
    lowered = condition.status == "True"
    return ("IsolationLowered", True) if lowered else ("IsolationRestored", False)
