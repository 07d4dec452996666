"""The nodes: what the core is told of them, and what the controller asks about the GPUs of a placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cotenant.api.conversion.nodes import NodeFacts, to_node
from cotenant.api.resources.gpunodes import HEARTBEAT_STALE_S, Violation
from cotenant.api.resources.trainingjob_status import Isolation
from cotenant.controller.cluster.missing_gpus import MissingGpus
from cotenant.controller.cluster.taints import untolerated_taint
from cotenant.controller.cluster.told import Told
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.controller.manifests.attempt import GpuFacts
from cotenant.controller.manifests.gpu_isolation import NodeIsolation, RuntimePath, isolation_level
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import Node, Placement
from cotenant.core.state.facts import NodeGone, NodeObserved


class ClusterNodes:
    def __init__(self, cache: ObjectCache, told: Told, settings: Settings) -> None:
        self.gpus: dict[str, GpuFacts] = {}
        self._cache = cache
        self._told = told
        self._tolerations = settings.toleration_list
        self._runtime_class = settings.runtime_class
        self._missing = MissingGpus()

    def sync(self, changed: set[str], now: float) -> None:
        for name in changed | self._silent(now) | self._missing.expired(now):
            facts = self._cache.nodes.get(name)
            node = self._node(name, facts, now) if facts is not None else self._gone(name, now)
            self._told.observe("node", name, NodeGone(name) if node is None else NodeObserved(node), node)

    def _node(self, name: str, facts: NodeFacts, now: float) -> Node | None:
        """Nothing when no agent speaks of it, and none has lately."""
        seen = self._cache.gpu_nodes.get(name)
        if untolerated_taint(self._cache.taints.get(name, ()), self._tolerations):
            facts = replace(facts, ready=False)
        load = self._cache.load.get(name)
        cpu, memory = (load.cpu_milli, load.memory_mib) if load else (0, 0)
        if seen is None:
            known: Node | None = self._told.last("node", name)
            gpus = self._missing.of(name, (), now)
            return replace(known, gpus=gpus, ready=False) if known is not None and gpus else None
        node = to_node(seen, facts, now=now, cpu_used=cpu, memory_used=memory)
        for gpu in node.gpus:
            self.gpus[gpu.uuid] = GpuFacts(memory_mib=gpu.memory_mib, simulated=seen.status.simulated)
        return replace(node, gpus=self._missing.of(name, node.gpus, now))

    def _gone(self, name: str, now: float) -> Node | None:
        """A Node that was deleted: its kubelet still ends the pods there, and until then their queues hold its GPUs."""
        known: Node | None = self._told.last("node", name)
        gpus = self._missing.of(name, (), now)
        return replace(known, gpus=gpus, ready=False, deleted=True) if known is not None and gpus else None

    def node(self, name: str) -> Node | None:
        """As the core was last told of it; nothing when it has no GPUs that anybody knows."""
        node: Node | None = self._told.last("node", name)
        return node

    def _silent(self, now: float) -> set[str]:
        """Nodes whose heartbeat has gone stale since they were last looked at."""
        silent = set()
        for name, seen in self._cache.gpu_nodes.items():
            known: Node | None = self._told.last("node", name)
            beat = seen.status.heartbeat
            if known is not None and known.ready and (beat is None or now - beat.timestamp() > HEARTBEAT_STALE_S):
                silent.add(name)
        return silent

    def isolation_of(self, node: str) -> NodeIsolation:
        seen = self._cache.gpu_nodes.get(node)
        if seen is None:
            return NodeIsolation(simulated=False, best=Isolation.COOPERATIVE)
        return NodeIsolation(simulated=seen.status.simulated, best=seen.status.isolation)

    def isolation_path(self, node: str) -> RuntimePath:
        return RuntimePath(self.isolation_of(node), self._runtime_class)

    def isolation_level(self, placement: Placement) -> Isolation:
        return isolation_level([self.isolation_of(node.node) for node in placement.nodes])

    def isolation_mismatch(self, placement: Placement, observed: Mapping[str, tuple[str, ...] | list[str]]) -> str:
        """Which rank sees other GPUs than it was granted; a node whose agent says nothing is not judged."""
        for node in placement.nodes:
            if node.node in self._cache.gpu_nodes and (wrong := self.isolation_path(node.node).verify(node, observed)):
                return wrong
        return ""

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
        return compute_milli if facts is None else max(compute_milli, -(-1000 * memory_mib // facts.memory_mib))

    def violations(self, pods: Mapping[str, PodRecord]) -> dict[str, Violation]:
        """By uid of the pod."""
        found: dict[str, Violation] = {}
        for node in {pod.node for pod in pods.values() if pod.node}:
            seen = self._cache.gpu_nodes.get(node)
            found |= {violation.pod_uid: violation for violation in (seen.status.violations if seen else ())}
        return found
