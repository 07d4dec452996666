"""Nodes as the core sees them, and what the GPUs of a placement amount to there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cotenant.api.conversion.nodes import to_node
from cotenant.api.resources.gpunodes import HEARTBEAT_STALE_S, Violation
from cotenant.api.resources.trainingjob_status import Isolation
from cotenant.controller.client.kube import GPU_NODES
from cotenant.controller.cluster.missing_gpus import MissingGpus
from cotenant.controller.cluster.taints import untolerated_taint
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.pod_record import NodeLoad, PodRecord
from cotenant.controller.manifests.attempt import GpuFacts
from cotenant.controller.manifests.gpu_isolation import NodeIsolation, RuntimePath, isolation_level
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import Node, Placement
from cotenant.core.model.share_cost import share_cost
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import NodeGone, NodeObserved


class ClusterNodes:
    def __init__(self, cache: ObjectCache, state: ClusterState, settings: Settings) -> None:
        self.gpus: dict[str, GpuFacts] = {}
        """UUID → what a pod must know of it; kept, because a pod may be made while its agent is silent."""
        self._cache, self._index, self._pods = cache, cache.nodes, cache.pods
        self._state = state
        self._tolerations = settings.toleration_list
        self._runtime_class = settings.runtime_class
        self._missing = MissingGpus()

    def sync(self, changed: set[str], now: float) -> bool:
        """Let the core know of these nodes, of those that fell silent, and of GPUs that stayed away for too long.

        Returns whether anything is other than it was.
        """
        differs = False
        for name in changed | self._silent(now) | self._missing.expired(now):
            try:
                node = self._observe(name, now)
            except Exception as error:
                self._cache.note_unreadable(GPU_NODES, name, error)
                if (known := self._state.nodes.get(name)) is None:
                    continue
                node = replace(known, ready=False)  # it takes nothing new
            differs |= self._state.observe(NodeGone(name) if node is None else NodeObserved(node))
        return differs

    def known(self) -> Mapping[str, Node]:
        """Name → node, as the core last observed it; without those of which no GPU is known."""
        return self._state.nodes

    def _observe(self, name: str, now: float) -> Node | None:
        """None: there is no agent, and there has been none lately."""
        facts, agent = self._index.facts.get(name), self._index.gpu_nodes.get(name)
        if facts is None or agent is None:
            # Deleted, or out of its agent's sight: until its pods are gone their queues hold its GPUs.
            known, gpus = self._state.nodes.get(name), self._missing.update(name, (), now)
            if known is None or not gpus:
                if agent is None and known is not None:
                    self._cache.forget_node(name)
                return None
            return replace(known, gpus=gpus, ready=False, deleted=facts is None or known.deleted)
        if untolerated_taint(self._index.taints.get(name, ()), self._tolerations) is not None:
            facts = replace(facts, ready=False)
        load = self._pods.load.get(name, NodeLoad())
        node = to_node(agent, facts, now=now, cpu_used=load.cpu_milli, memory_used=load.memory_mib)
        simulated = agent.status.simulated
        self.gpus |= {gpu.uuid: GpuFacts(memory_mib=gpu.memory_mib, simulated=simulated) for gpu in node.gpus}
        return replace(node, gpus=self._missing.update(name, node.gpus, now))

    def _silent(self, now: float) -> set[str]:
        """Nodes whose heartbeat has gone stale since they were last looked at."""
        silent = set()
        for name, seen in self._index.gpu_nodes.items():
            known, beat = self._state.nodes.get(name), seen.status.heartbeat
            if known is not None and known.ready and (beat is None or now - beat.timestamp() > HEARTBEAT_STALE_S):
                silent.add(name)
        return silent

    def isolation_of(self, node: str) -> NodeIsolation:
        seen = self._index.gpu_nodes.get(node)
        if seen is None:
            return NodeIsolation(simulated=False, best=Isolation.COOPERATIVE)
        return NodeIsolation(simulated=seen.status.simulated, best=seen.status.isolation)

    def isolation_path(self, node: str) -> RuntimePath:
        return RuntimePath(self.isolation_of(node), self._runtime_class)

    def isolation_level(self, placement: Placement) -> Isolation:
        return isolation_level([self.isolation_of(node.node) for node in placement.nodes])

    def isolation_mismatch(
        self, placement: Placement, observed: Mapping[str, tuple[str, ...] | list[str]]
    ) -> str | None:
        """Which rank sees other GPUs than it was granted; a node without an agent is not judged."""
        for node in placement.nodes:
            if node.node in self._index.gpu_nodes and (wrong := self.isolation_path(node.node).verify(node, observed)):
                return wrong
        return None

    def held_milli(self, placement: Placement) -> int:
        """Milli-GPU held: of each grant the larger of its two dimensions, rounded up."""
        return sum(
            self._grant_milli(gpu.uuid, gpu.memory_mib, gpu.compute_milli)
            for node in placement.nodes
            for rank in node.ranks
            for gpu in rank.gpus
        )

    def _grant_milli(self, uuid: str, memory_mib: int, compute_milli: int) -> int:
        facts = self.gpus.get(uuid)
        return compute_milli if facts is None else share_cost(memory_mib, compute_milli, facts.memory_mib)

    def violations(self, pods: Mapping[str, PodRecord]) -> dict[str, Violation]:
        """By uid of the pod."""
        found: dict[str, Violation] = {}
        for node in {pod.node for pod in pods.values() if pod.node}:
            seen = self._index.gpu_nodes.get(node)
            found |= {violation.pod_uid: violation for violation in (seen.status.violations if seen else ())}
        return found
