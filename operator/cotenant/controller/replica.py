"""One replica of the operator: what it consists of, what leadership changes, and its coroutines to supervise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import Kube
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.composites.controller import CompositeController
from cotenant.controller.composites.kinds import kinds
from cotenant.controller.composites.remote_clusters.connection import Connect, rest_connect
from cotenant.controller.composites.remote_clusters.registry import RemoteClusters
from cotenant.controller.decision_log.archive import Archive
from cotenant.controller.decision_log.past_capsules import PastCapsules
from cotenant.controller.decision_log.recorder import DecisionRecorder
from cotenant.controller.decision_log.showback_ledger import ShowbackLedger
from cotenant.controller.execution.containment.containment import Containment
from cotenant.controller.execution.loop.decisions import Decisions
from cotenant.controller.execution.loop.observer import Observer
from cotenant.controller.execution.loop.scheduling_loop import SchedulingLoop
from cotenant.controller.execution.loop.verdict_throttle import VerdictThrottle
from cotenant.controller.execution.writes.action_executor import ActionExecutor
from cotenant.controller.execution.writes.event_recorder import EventRecorder
from cotenant.controller.execution.writes.executor import Executor
from cotenant.controller.execution.writes.pods.base_network_policies import BaseNetworkPolicies
from cotenant.controller.execution.writes.pods.pod_creator import PodCreator
from cotenant.controller.execution.writes.pods.pod_deleter import PodDeleter
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.feed.cluster_feed import ClusterFeed
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.query_api.questions import Questions
from cotenant.controller.reports import gpu_node_news, kubelet_events, use_watch
from cotenant.controller.reports.gpu_node_news import GpuNodeNews
from cotenant.controller.reports.kubelet_events import KubeletEventReader
from cotenant.controller.reports.progress_poller import ProgressPoller
from cotenant.controller.reports.queues import queue_status_writer
from cotenant.controller.reports.queues.local_queue_writer import LocalQueueWriter
from cotenant.controller.reports.queues.queue_status_writer import QueueStatusWriter
from cotenant.controller.reports.rounds import repeat
from cotenant.controller.reports.slow_gpus import SlowGpus
from cotenant.controller.reports.start_estimates import StartEstimates
from cotenant.controller.reports.use_watch import UseWatch
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.plan import BookedGpus, Plan
from cotenant.core.snapshot.snapshot import Snapshot

STUCK_S = 60.0
"""A loop that gave no sign of life for this long fails the liveness probe."""


class Operator:
    """One replica: observes, decides and writes. `kube` holds back its writes unless `leadership` is held."""

    def __init__(
        self,
        kube: Kube,
        leadership: Leadership,
        settings: Settings,
        metrics: Metrics,
        *,
        connect: Connect | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`connect` opens the client of another cluster; by default over HTTP, with the same fence."""
        self.clock = clock
        """Unix seconds."""
        self.kube = kube
        self.leadership = leadership
        self.settings = settings
        self.metrics = metrics
        self._wake_up = asyncio.Event()
        self.cache, self.memories = ObjectCache(self._wake_up.set, clock=clock), JobMemories()
        self.budgets = Budgets(settings.price_list)
        leadership.on_lost(self.budgets.forget)
        leadership.on_change(lambda held: metrics.leader.set(int(held)))
        self.cluster = ClusterView(self.cache, self.memories, settings, self.budgets)
        self.event_recorder = EventRecorder(
            self.kube, metrics, identity=settings.identity, per_second=settings.events_per_s
        )
        self.progress_poller = ProgressPoller(
            self.cache,
            self.memories,
            metrics,
            SlowGpus(self.kube, self.cache, self.memories, clock),
            leadership=leadership,
            every_s=settings.progress_s,
            clock=clock,
        )
        self.gpu_node_news = GpuNodeNews(
            kube=self.kube,
            cache=self.cache,
            nodes=self.cluster.nodes,
            metrics=metrics,
            leadership=leadership,
            clock=clock,
        )
        self.use_watch = UseWatch(self.cache, self.memories, clock=clock)
        self.kubelet_events = KubeletEventReader(self.kube, self.cache, self.memories, clock=clock)
        self.queue_status_writer = QueueStatusWriter(
            kube=self.kube,
            cache=self.cache,
            budgets=self.budgets,
            metrics=metrics,
            leadership=leadership,
            clock=clock,
        )
        self.local_queue_writer = LocalQueueWriter(self.kube, self.cache, leadership=leadership, clock=clock)
        self.base_network_policies = BaseNetworkPolicies(
            self.kube, self.cache, settings, leadership=leadership, clock=clock
        )
        self.start_estimates = StartEstimates(self.cache, self.memories, metrics, settings.policy, leadership)
        self.questions = Questions(settings.policy, leadership)
        self.decision_recorder = DecisionRecorder(
            cache=self.cache,
            metrics=metrics,
            policy=settings.policy,
            prices=settings.price_list,
            showback=ShowbackLedger(self.cache, self.cluster.meters),
            archive=Archive(settings.decision_log_folder, settings.decision_log_mib),
            capsules=PastCapsules(settings.policy, settings.capsules_mib << 20, settings.capsule_every).keep_in(
                settings.decision_log_folder, settings.decision_log_mib
            ),
            leadership=leadership,
            clock=clock,
        )
        self.composites = tuple(
            CompositeController(
                self.kube,
                kind,
                self.event_recorder,
                metrics,
                has_taken_over=lambda: self.loop.has_taken_over,
                clock=clock,
            )
            for kind in kinds(self.cache, labelled_only=settings.tenant_namespaces == "labelled")
        )
        self.feed = ClusterFeed(
            kube=self.kube,
            cache=self.cache,
            composites=self.composites,
            decision_recorder=self.decision_recorder,
            on_policy=self.base_network_policies.look,
            metrics=metrics,
            settings=settings,
        )
        self.loop = self._build_loop()
        self.remote_clusters = RemoteClusters(
            kube=self.kube,
            cache=self.cache,
            executor=self.loop.executor,
            metrics=metrics,
            has_taken_over=lambda: self.loop.has_taken_over,
            connect=connect or rest_connect(Fence(lambda: leadership.held).check),
            namespace=settings.namespace,
            clock=clock,
        )

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
            action_executor=ActionExecutor(executor=executor, settings=self.settings),
            containment=Containment(cache=cache, memories=memories, metrics=self.metrics),
            observer=Observer(cache=cache, cluster=cluster, memories=memories),
            schedule=Decisions(self.settings.policy),
            metrics=self.metrics,
            settings=self.settings,
            leadership=self.leadership,
            resync=self.feed.resync,
            verdict_throttle=VerdictThrottle(memories, rewrite_s=self.settings.verdict_s, namespaces=cache.namespaces),
            explained=self.start_estimates.explained,
            on_plan=self._on_plan,
            on_decision=self.decision_recorder.on_decision,
            on_taken_over=self._look_at_composites,
            wake_up=self._wake_up,
            clock=self.clock,
        )

    def _look_at_composites(self) -> None:
        for controller in self.composites:
            controller.look_at_all()

    def _on_plan(self, snapshot: Snapshot, plan: Plan) -> None:
        self.queue_status_writer.on_plan(snapshot, plan)
        self.local_queue_writer.on_plan(snapshot)
        self.start_estimates.on_plan(snapshot, plan)
        self.questions.on_plan(snapshot, plan)
        standings = {one.booking.name: one for one in snapshot.bookings}
        self.cache.booked = {
            name: (standing, plan.booked.get(name, BookedGpus((), 0))) for name, standing in standings.items()
        }

    def alive(self) -> str:
        silent = time.monotonic() - self.loop.last_alive
        return f"the scheduling loop gave no sign of life for {silent:.0f} s" if silent > STUCK_S else ""

    def ready(self) -> str:
        return "" if self.feed.synced_at is not None else "the cluster has not been listed yet"

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        return {
            **self.feed.watches(),
            "loop": self.loop.run(),
            "base NetworkPolicies": self.base_network_policies.run(),
            "resync": self.feed.keep_in_sync(),
            "events": self.event_recorder.run(),
            "queues": repeat(
                self.queue_status_writer.write, self.settings.queue_s, queue_status_writer.STAGE, self.metrics
            ),
            "local queues": repeat(self.local_queue_writer.write, self.settings.queue_s, "LocalQueues", self.metrics),
            "estimates": self.start_estimates.run(),
            "progress": self.progress_poller.run(),
            "decision log": self.decision_recorder.record(),
            "news of GPUNodes": repeat(
                self.gpu_node_news.report, gpu_node_news.EVERY_S, "GPUNodeNews", self.metrics, self.leadership
            ),
            "kubelet Events": repeat(
                self.kubelet_events.read, kubelet_events.EVERY_S, "KubeletEvents", self.metrics, self.leadership
            ),
            "use of GPUs": repeat(self.use_watch.look, use_watch.EVERY_S, "LowUse", self.metrics, self.leadership),
            "remote clusters": self.remote_clusters.run(),
            **{one.composite.resource.plural: one.run() for one in self.composites},
        }
