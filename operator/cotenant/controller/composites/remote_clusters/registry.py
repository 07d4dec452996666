"""Keeps one keeper for each RemoteCluster while this replica leads, and tells jobs whose RemoteCluster is gone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cotenant.controller.client.kube import Kube, RefusedError, UnreachableError
from cotenant.controller.composites.remote_clusters import steps
from cotenant.controller.composites.remote_clusters.connection import Connect, RemoteConnection
from cotenant.controller.composites.remote_clusters.keeper import RemoteKeeper
from cotenant.controller.composites.remote_clusters.remote_pods import RemotePods
from cotenant.controller.execution.writes.executor import Executor
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

LOOK_S: Final = 2.0
"""Pause between two looks for new and deleted RemoteClusters."""


@dataclass(slots=True, kw_only=True)
class RemoteClusters:
    kube: Kube
    cache: ObjectCache
    executor: Executor
    metrics: Metrics
    has_taken_over: Callable[[], bool]
    """Whether this replica leads and has listed the cluster since it began to."""
    connect: Connect
    namespace: str
    """Namespace of the Secrets with kubeconfigs, which is the operator's."""
    clock: Callable[[], float] = time.time
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                self.start_and_stop()
                if self.has_taken_over():
                    await self.note_unregistered()
                await asyncio.sleep(LOOK_S)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def start_and_stop(self) -> None:
        """Start the keeper of each new RemoteCluster, and stop those of deleted ones."""
        wanted = set(self.cache.remote_clusters) if self.has_taken_over() else set()
        for name in self._tasks.keys() - wanted:
            self._tasks.pop(name).cancel()
            self.metrics.forget_remote_cluster(name)
        for name in sorted(wanted - self._tasks.keys()):
            self._tasks[name] = asyncio.create_task(self.keeper(name).run(), name=f"RemoteCluster {name}")

    def keeper(self, name: str) -> RemoteKeeper:
        return RemoteKeeper(
            name=name,
            kube=self.kube,
            cache=self.cache,
            executor=self.executor,
            connection=RemoteConnection(self.kube, self.connect, self.namespace),
            metrics=self.metrics,
            clock=self.clock,
        )

    def pods(self) -> RemotePods:
        return RemotePods(kube=self.kube, cache=self.cache, connect=self.connect, namespace=self.namespace)

    async def note_unregistered(self) -> None:
        """Tell the jobs on clusters whose RemoteCluster does not exist any more."""
        now = self.clock()
        for record in list(self.cache.jobs.values()):
            cluster = record.status.cluster
            if cluster is None or not record.is_away or cluster.name in self.cache.remote_clusters:
                continue
            why = (
                f"there is no RemoteCluster {cluster.name} that can be read: make it again, or delete the job here and"
                f" {cluster.namespace}/{cluster.job} there"
            )
            status = steps.lost(record, cluster, why, now, now)
            try:
                if status is not None:
                    await self.executor.write(record, status)
            except (UnreachableError, RefusedError) as error:
                log.warning("%s: %s", record.key, error)
