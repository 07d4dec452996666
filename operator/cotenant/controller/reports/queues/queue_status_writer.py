"""Writes the statuses of Queues from the last plan, every few seconds, and sets the gauges."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from typing import Final

from cotenant.api.resources.queues import Queue
from cotenant.controller.client.kube import QUEUES, Kube, Outcome, UnreachableError
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.reports.queues.live_use import set_live_gauges
from cotenant.controller.reports.queues.queue_gauges import clear_gauges, set_gauges
from cotenant.controller.reports.queues.queue_status import (
    QueueAccounts,
    status_of,
    unreadable_conditions,
    worth_a_write,
)
from cotenant.controller.telemetry.logs import shorten
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.plan import Plan
from cotenant.core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)

STAGE: Final = "QueueStatusFailed"
"""Name of the stage in the metric of contained failures."""


@dataclass(slots=True, kw_only=True)
class QueueStatusWriter:
    kube: Kube
    cache: ObjectCache
    budgets: Budgets
    metrics: Metrics
    leadership: InitVar[Leadership]
    clock: Callable[[], float] = time.time
    """Unix seconds."""
    _last: tuple[Snapshot, Plan] | None = None

    def __post_init__(self, leadership: Leadership) -> None:
        leadership.on_lost(self.forget)

    def on_plan(self, snapshot: Snapshot, plan: Plan) -> None:
        """Keep the last decision. The next write reads it."""
        self._last = snapshot, plan

    def forget(self) -> None:
        """Pause until the next plan: a replica that does not lead has no current one.

        Its gauges are cleared. Dashboards take the highest value of all replicas, so they would hide those of the next
        leader.
        """
        self._last = None
        clear_gauges(self.metrics)

    async def write(self) -> None:
        """One round. Raises UnreachableError."""
        if self._last is None:
            return
        snapshot, plan = self._last
        now = self.clock()
        account = await asyncio.to_thread(QueueAccounts.of, snapshot)
        if self._last is None:  # leadership was lost meanwhile
            return
        set_gauges(self.metrics, snapshot, account, plan.verdicts, self.cache.jobs.values())
        agents = (one.status for one in self.cache.nodes.gpu_nodes.values())
        set_live_gauges(self.metrics, agents, self.cache.jobs.values())
        await self._write(snapshot, account, now)

    async def _write(self, snapshot: Snapshot, account: QueueAccounts, now: float) -> None:
        served = {queue.name: queue.namespaces for queue in snapshot.queues}
        for name, queue in list(self.cache.queues.items()):
            if name not in account.tree.index:
                continue
            try:
                await self._write_one(queue, account, served.get(name, frozenset()), now)
            except UnreachableError:
                raise
            except Exception:  # that queue's, and no other's
                self.metrics.failures_contained.labels(STAGE).inc()
                log.exception("the status of queue %s was not written", name)
        for (plural, name), why in list(self.cache.unreadable.items()):
            if plural == QUEUES.plural:
                await self._write_unreadable(name, why, now)

    async def _write_one(self, queue: Queue, account: QueueAccounts, served: frozenset[str], now: float) -> None:
        name = queue.metadata.name or ""
        written = self.cache.queue_statuses.get(name, {})
        status = status_of(queue, account, {one: one in self.cache.namespaces for one in served}, self.budgets, now)
        change = difference(written, status.to_document())
        if worth_a_write(change, written):
            await self._patch(name, change)

    async def _write_unreadable(self, name: str, why: str, now: float) -> None:
        """Keep the amounts of the last write, because nothing newer is known."""
        written = self.cache.queue_statuses.get(name, {})
        change = unreadable_conditions(why, written, now)
        if change["conditions"] != written.get("conditions"):
            await self._patch(name, change)

    async def _patch(self, name: str, change: Mapping[str, object]) -> None:
        reply = await self.kube.patch(QUEUES, name, {"status": change}, subresource="status")
        if reply.done:
            self.cache.put(QUEUES, reply.document)
        elif reply.outcome is Outcome.REFUSED:
            log.error("the status of queue %s was refused (%d): %s", name, reply.code, shorten(reply.message))
