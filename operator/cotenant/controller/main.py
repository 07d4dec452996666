"""Wires the operator together and supervises its parts: when one of them ends, all end, and the log names it.

SIGTERM lets the writes under way finish, gives the Lease back and exits 0; any part that ends by itself makes the exit
code 1, so that Kubernetes starts the pod anew.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import NETWORK_POLICIES, Document, Kube, Resource, UnreachableError
from cotenant.controller.client.rest import RestKube, RetryPolicy
from cotenant.controller.cluster.budgets import Budgets
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.execution.base_network_policies import BaseNetworkPolicies
from cotenant.controller.execution.containment import Containment
from cotenant.controller.execution.decisions import Decisions
from cotenant.controller.execution.event_recorder import EventRecorder
from cotenant.controller.execution.executor import Executor
from cotenant.controller.execution.observer import Observer
from cotenant.controller.execution.pod_creator import PodCreator
from cotenant.controller.execution.pod_deleter import PodDeleter
from cotenant.controller.execution.scheduling_loop import SchedulingLoop
from cotenant.controller.execution.verdict_throttle import VerdictThrottle
from cotenant.controller.informers import kopf_feed, reflector
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.leader.election import LeaderElector
from cotenant.controller.leader.lease_thread import LeaseThread
from cotenant.controller.query_api.access import CallerAccess
from cotenant.controller.query_api.answers import Answers
from cotenant.controller.query_api.endpoint import LeaderEndpoint
from cotenant.controller.query_api.questions import Questions
from cotenant.controller.query_api.server import QueryServer
from cotenant.controller.reports.gpu_disputes import GpuDisputeReporter
from cotenant.controller.reports.gpu_node_conditions import GpuNodeConditionReporter
from cotenant.controller.reports.local_queue_writer import LocalQueueWriter
from cotenant.controller.reports.metrics_access import MetricsAccess
from cotenant.controller.reports.progress_poller import ProgressPoller
from cotenant.controller.reports.queue_status_writer import QueueStatusWriter
from cotenant.controller.reports.slow_gpus import SlowGpus
from cotenant.controller.reports.start_estimates import StartEstimates
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry import metrics_server, probes
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.plan import Plan
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.serving.certificate import ServingCertificate

log = logging.getLogger(__name__)

OBSERVED: Final = (*kopf_feed.WATCHED, *reflector.REFLECTED)
"""Whatever the settings are."""

STOP_S = 5.0
REOPEN_S = 2.0
STUCK_S = 60.0
"""A loop that gave no sign of life for this long fails the liveness probe."""


class Operator:
    """One replica: observes, decides and writes. `kube` holds back its writes unless `is_leader`."""

    def __init__(
        self,
        kube: Kube,
        is_leader: Callable[[], bool],
        settings: Settings,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.clock = clock
        """Unix seconds."""
        self.kube = kube
        self.is_leader = is_leader
        self.settings = settings
        self.metrics = metrics
        self.synced_at: float | None = None
        self._wake_up = asyncio.Event()
        self._listed = asyncio.Event()
        self.cache, self.memories = ObjectCache(self._wake_up.set, clock=clock), JobMemories()
        self.watched = kopf_feed.watched(settings.device_claims)
        self.observed = (*self.watched, *reflector.REFLECTED)
        for resource in self.observed:
            metrics.unreadable.labels(resource.plural).set_function(partial(self.cache.unreadable_of, resource))
        budgets = Budgets()
        self.cluster = ClusterView(self.cache, self.memories, settings, budgets)
        self.event_recorder = EventRecorder(
            self.kube, metrics, identity=settings.identity, per_second=settings.events_per_s
        )
        self.progress_poller = ProgressPoller(
            self.cache,
            self.memories,
            metrics,
            SlowGpus(self.kube, self.cache, self.memories),
            is_leader=is_leader,
            every_s=settings.progress_s,
            clock=clock,
        )
        self.gpu_disputes = GpuDisputeReporter(self.kube, self.cache, self.cluster.nodes, metrics)
        self.gpu_node_conditions = GpuNodeConditionReporter(self.kube, self.cache, metrics, clock=clock)
        self.queue_status_writer = QueueStatusWriter(
            kube=self.kube, cache=self.cache, budgets=budgets, metrics=metrics, every_s=settings.queue_s, clock=clock
        )
        self.local_queue_writer = LocalQueueWriter(
            self.kube, self.cache, metrics, every_s=settings.queue_s, clock=clock
        )
        self.base_network_policies = BaseNetworkPolicies(
            self.kube, self.cache, settings, is_leader=is_leader, clock=clock
        )
        self.start_estimates = StartEstimates(self.cache, metrics, settings.policy)
        self.questions = Questions(settings.policy)
        self.loop = self._build_loop()

    def _build_loop(self) -> SchedulingLoop:
        kube, cache, cluster, memories = self.kube, self.cache, self.cluster, self.memories
        executor = Executor(
            kube=kube,
            cache=cache,
            cluster=cluster,
            memories=memories,
            pod_creator=PodCreator(
                kube=kube,
                cache=cache,
                nodes=cluster.nodes,
                memories=memories,
                base_network_policies=self.base_network_policies,
                settings=self.settings,
            ),
            pod_deleter=PodDeleter(kube=kube, cache=cache, max_grace_s=self.settings.max_grace_period_s),
            event_recorder=self.event_recorder,
            metrics=self.metrics,
            clock=self.clock,
        )
        return SchedulingLoop(
            cache=cache,
            cluster=cluster,
            memories=memories,
            executor=executor,
            containment=Containment(cache=cache, memories=memories, metrics=self.metrics),
            observer=Observer(cache=cache, cluster=cluster, memories=memories),
            schedule=Decisions(self.settings.policy),
            metrics=self.metrics,
            settings=self.settings,
            is_leader=self.is_leader,
            resync=self.resync,
            verdict_throttle=VerdictThrottle(memories, rewrite_s=self.settings.verdict_s),
            explained=self.start_estimates.explained,
            on_plan=self._on_plan,
            wake_up=self._wake_up,
            clock=self.clock,
        )

    def _on_plan(self, snapshot: Snapshot, plan: Plan) -> None:
        self.queue_status_writer.on_plan(snapshot, plan)
        self.local_queue_writer.on_plan(snapshot)
        self.start_estimates.on_plan(snapshot, plan)
        self.questions.on_plan(snapshot, plan)

    async def resync(self) -> None:
        """List everything: what the watches missed is found, what is gone is dropped."""
        for resource in self.observed:
            name = reflector.REFLECTED.get(resource, "")
            self.cache.replace(resource, await self.kube.list(resource, name=name))
        self.synced_at = time.monotonic()
        self._listed.set()

    async def list_anew(self) -> None:
        """The same, as soon as the API server answers for all kinds."""
        while True:
            try:
                return await self.resync()
            except UnreachableError as error:
                log.warning("listing failed: %s", error)
                await asyncio.sleep(1.0)

    async def keep_in_sync(self) -> None:
        while True:
            await self.list_anew()
            await asyncio.sleep(self.settings.resync_s)

    async def feed(self) -> None:
        """Watch, and watch again where that has ended: a CustomResourceDefinition may have gone for a while."""
        await self._listed.wait()
        while True:
            try:
                await kopf_feed.run(self.on_event, self.watched)
            except kopf_feed.FeedStoppedError as error:
                log.error("%s (%s); it begins anew when everything can be listed", error, error.__cause__)
            await asyncio.sleep(REOPEN_S)
            await self.list_anew()

    def on_event(self, resource: Resource, document: Document, deleted: bool) -> None:
        self.metrics.events_seen.labels(resource.plural).inc()
        self.cache.put(resource, document, deleted)
        if resource == NETWORK_POLICIES:
            self.base_network_policies.look()

    def _reflector(self, resource: Resource) -> reflector.Reflector:
        name = reflector.REFLECTED[resource]
        return reflector.Reflector(
            kube=self.kube, resource=resource, replace=self.cache.replace, put=self.on_event, name=name
        )

    def alive(self) -> str:
        silent = time.monotonic() - self.loop.last_alive
        return f"the scheduling loop gave no sign of life for {silent:.0f} s" if silent > STUCK_S else ""

    def ready(self) -> str:
        return "" if self.synced_at is not None else "the cluster has not been listed yet"

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        return {
            "feed": self.feed(),
            **{f"watch of {one.plural}": self._reflector(one).run() for one in reflector.REFLECTED},
            "loop": self.loop.run(),
            "base NetworkPolicies": self.base_network_policies.run(),
            "resync": self.keep_in_sync(),
            "events": self.event_recorder.run(),
            "queues": self.queue_status_writer.run(),
            "local queues": self.local_queue_writer.run(),
            "estimates": self.start_estimates.run(),
            "progress": self.progress_poller.run(),
            "disputes": self.gpu_disputes.run(),
            "conditions of GPUNodes": self.gpu_node_conditions.run(),
        }

    def on_leadership(self, leads: bool) -> None:
        self.metrics.leader.set(int(leads))
        if not leads:
            self.loop.lose_leadership()
            self.queue_status_writer.forget_plan()
            self.local_queue_writer.forget()
            self.start_estimates.forget()
            self.questions.forget()
        self._wake_up.set()


async def run(settings: Settings) -> int:
    """Run until a signal (0) or until a part fails (1)."""
    metrics = Metrics()
    lease_kube = RestKube(in_flight=2, on_call=metrics.count_call, retry=RetryPolicy(attempts=2, call_timeout_s=3.0))
    elector = LeaderElector(
        lease_kube, namespace=settings.namespace, name=settings.lease_name, identity=settings.identity
    )
    fence = Fence(lambda: elector.is_leader)
    reviews = RestKube(in_flight=2, on_call=metrics.count_call, retry=RetryPolicy(attempts=1, call_timeout_s=5.0))
    async with (
        reviews as review_kube,
        RestKube(in_flight=settings.writes_in_flight, on_call=metrics.count_call, before_write=fence.check) as kube,
    ):
        operator = Operator(kube, fence.is_leader, settings, metrics)
        operator.loop.last_alive = time.monotonic()
        questions = _serve_questions(operator, review_kube) if settings.query_certificate else {}
        servers = [
            await probes.serve(settings.host, settings.port, alive=operator.alive, ready=operator.ready),
            await _serve_metrics(settings, metrics, review_kube),
        ]
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        try:
            return await _supervise(operator, LeaseThread(lease_kube, elector), stopped, questions)
        finally:
            for server in servers:
                await server.cleanup()


async def _serve_metrics(settings: Settings, metrics: Metrics, kube: Kube) -> web.AppRunner:
    folder = settings.metrics_certificate
    return await metrics_server.serve(
        (settings.host, settings.metrics_port),
        metrics,
        access=MetricsAccess(kube).access if settings.metrics_readers == "authorized" else None,
        certificate=ServingCertificate(Path(folder)) if folder else None,
    )


def _serve_questions(operator: Operator, review_kube: Kube) -> dict[str, Coroutine[Any, Any, None]]:
    """The parts that answer questions, by name."""
    settings, access = operator.settings, CallerAccess(review_kube)
    answers = Answers(
        cache=operator.cache,
        questions=operator.questions,
        access=access,
        is_leader=operator.is_leader,
        reserve_mib=settings.reserve_head_mib,
    )
    server = QueryServer(
        kube=review_kube,
        answers=answers,
        access=access,
        address=(settings.host, settings.query_port),
        certificate=Path(settings.query_certificate),
    )
    endpoint = LeaderEndpoint(
        kube=operator.kube,
        namespace=settings.namespace,
        address=settings.query_address,
        is_leader=operator.is_leader,
    )
    return {"questions": server.run(), "endpoint": endpoint.run()}


async def _supervise(
    operator: Operator,
    lease: LeaseThread,
    stopped: asyncio.Event,
    more: Mapping[str, Coroutine[Any, Any, None]] = MappingProxyType({}),
) -> int:
    coroutines = {**operator.tasks(), **more, "lease": lease.run(operator.on_leadership)}
    parts = {asyncio.create_task(part, name=name): name for name, part in coroutines.items()}
    signalled = asyncio.create_task(stopped.wait(), name="signal")
    done, _ = await asyncio.wait({signalled, *parts}, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in parts if task in done]
    for task in failed:  # never by themselves, unless by an error
        log.critical("%s has ended; the operator stops", parts[task], exc_info=task.exception())
    signalled.cancel()
    for task in parts:
        task.cancel()
    await asyncio.wait(parts, timeout=STOP_S)
    await operator.loop.stop()  # the Lease is still held and renewed while the last writes end
    await lease.stop()
    return 1 if failed else 0
