"""GPU nodes in the form of the core, and facts about the GPUs of a placement."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from cotenant import names
from cotenant.api.conversion.nodes import to_node
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.gpunodes import GPUNode, Violation
from cotenant.api.scalars.taints import untolerated_taint
from cotenant.controller.client.kube import GPU_NODES
from cotenant.controller.cluster.nodes.agent_heartbeats import AgentHeartbeats
from cotenant.controller.cluster.nodes.duplicate_gpus import DuplicateGpus
from cotenant.controller.cluster.nodes.missing_gpus import MissingGpus
from cotenant.controller.cluster.nodes.runtime_failures import RuntimeFailures
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemory
from cotenant.controller.informers.pods.node_load import NodeLoad
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.isolation.node_isolation import NodeIsolation, reported_isolation
from cotenant.controller.isolation.verification import Verification, evidence_of, verified, verified_together
from cotenant.controller.manifests.attempt import GpuFacts
from cotenant.controller.settings import Settings
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import Node, Placement
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import NodeGone, NodeObserved

log = logging.getLogger(__name__)


class ClusterNodes:
    def __init__(self, cache: ObjectCache, state: ClusterState, settings: Settings) -> None:
        self.gpus: dict[str, GpuFacts] = {}
        """GPU UUID → facts that a pod needs. Kept while the agent is silent, because pods may be made then."""
        self.ungranted: dict[str, PodRecord] = {}
        """Pod uid → pod with a contract that no decision of this operator can have given it."""
        self.disputes: dict[str, Mapping[str, str]] = {}
        """Node → GPU UUID → why the GPU is not handed out although its agent reports it as healthy."""
        self.requested: dict[str, Mapping[str, int]] = {}
        """Node → extended resource → how many pods of others have requested.

        Only nodes whose kubelet hands out devices are listed, and only if others have requested some or not all are
        offered.
        """
        self._resources: dict[str, str] = {}
        """GPU UUID → extended resource. Kept while the agent is silent, like `gpus`."""
        self._heartbeats, self._duplicates = AgentHeartbeats(), DuplicateGpus()
        self._cache, self._index, self._pods = cache, cache.nodes, cache.pods
        self._state = state
        self._tolerations = settings.toleration_list
        self._claims = settings.device_claims != "off"
        self._missing = MissingGpus()
        self.runtime_failures = RuntimeFailures()

    def sync(self, changed: set[str], now: float) -> bool:
        """Update the core with these nodes, with nodes that fell silent, and with GPUs that were missing for too long.

        Returns true if anything changed.
        """
        differs = False
        for name in changed:
            agent = self._index.gpu_nodes.get(name)
            changed = changed | self._duplicates.update(name, (gpu.uuid for gpu in agent.status.gpus) if agent else ())
        for name in changed | self._silent(now) | self._missing.expired(now) | self.runtime_failures.changed(now):
            try:
                node = self._observe(name, now)
            except Exception as error:
                self._cache.note_unreadable(GPU_NODES, name, error)
                if (known := self._state.nodes.get(name)) is None:
                    continue
                node = replace(known, ready=False)  # it takes nothing new
            differs |= self._state.observe(NodeGone(name) if node is None else NodeObserved(node))
        return differs

    def note_ungranted(self, memory: JobMemory, pods: Iterable[PodRecord]) -> None:
        """Pods that name this job in a contract which no decision of this operator can have made."""
        before, now = memory.ungranted, {pod.uid: pod for pod in pods}
        memory.ungranted = now
        for uid in before:
            del self.ungranted[uid]
        self.ungranted |= now
        for uid in now.keys() - before.keys():
            pod = now[uid]
            log.warning("pod %s/%s on node %s has a contract that nothing of ours gave it: it holds no GPU",
                        pod.namespace, pod.name, pod.node)  # fmt: skip
        if now.keys() != before.keys():
            self._cache.mark_changed(nodes={pod.node for pod in (*now.values(), *before.values()) if pod.node})

    def _without_disputed(self, node: Node, agent: GPUNode) -> Node:
        """The node with its disputed GPUs marked: another node lists them too, or a pod without a grant uses them."""
        strange = self.ungranted
        disputes: dict[str, str] = {}
        for gpu in agent.status.gpus:
            if others := self._duplicates.others(node.name, gpu.uuid):
                both = " and ".join([node.name, *others])
                disputes[gpu.uuid] = f"GPU {gpu.uuid} is listed by nodes {both} at once"
            for pod in (strange[process.pod_uid] for process in gpu.processes if process.pod_uid in strange):
                disputes[gpu.uuid] = f"pod {pod.namespace}/{pod.name} is on GPU {gpu.uuid} without a grant of it"
        self._note_disputes(node.name, disputes)
        if not disputes:
            return node
        return replace(
            node, gpus=tuple(replace(gpu, healthy=gpu.healthy and gpu.uuid not in disputes) for gpu in node.gpus)
        )

    def _note_disputes(self, node: str, disputes: Mapping[str, str]) -> None:
        before = self.disputes.pop(node, {})
        if disputes:
            self.disputes[node] = disputes
        for uuid, text in disputes.items():
            if before.get(uuid) != text:
                log.warning("%s; it is not handed out, and who runs on it stays", text)

    def _note_requests(self, node: Node, requested: Mapping[str, int]) -> None:
        resources = {gpu.resource for gpu in node.gpus if gpu.resource}
        counted = {name: number for name, number in requested.items() if number and name in resources}
        if counted or any(gpu.resource and not gpu.healthy for gpu in node.gpus):
            self.requested[node.name] = counted
        else:
            self.requested.pop(node.name, None)

    def known(self) -> Mapping[str, Node]:
        """Name → node as the core last observed it. Nodes without a known GPU are left out."""
        return self._state.nodes

    def _observe(self, name: str, now: float) -> Node | None:
        """The core's view of the node; None if it has no agent and had none lately."""
        facts, agent = self._index.facts.get(name), self._index.gpu_nodes.get(name)
        if facts is None or agent is None:
            # Deleted, or out of its agent's sight: until its pods are gone their queues hold its GPUs.
            self.disputes.pop(name, None)
            self.requested.pop(name, None)
            known, gpus = self._state.nodes.get(name), self._missing.update(name, (), now)
            if known is None or not gpus:
                if agent is None and known is not None:
                    self._cache.forget_node(name)
                return None
            return replace(known, gpus=gpus, ready=False, deleted=facts is None or known.deleted)
        taint = untolerated_taint(self._index.taints.get(name, ()), self._tolerations)
        if taint is not None:
            facts = replace(facts, ready=False, unready_because=facts.unready_because or f"taint {taint}")
        beat, written_at = unix_seconds(agent.status.heartbeat), self._index.statuses_written.get(name)
        self._heartbeats.note(name, beat, written_at, now, agent.status.stale_after_s)
        load = self._pods.load.get(name, NodeLoad())
        node = to_node(
            agent,
            facts,
            now=now,
            cpu_used=load.cpu_milli,
            memory_used=load.memory_mib,
            scratch_used=load.scratch_mib,
            pods_used=load.pods,
        )
        heard = self._heartbeats.is_fresh(name, now)
        failing = self.runtime_failures.why(name)
        why = facts.unready_because or ("" if heard else "its agent is silent") or failing
        node = replace(node, ready=facts.ready and heard and not failing, unready_because=why)
        node = self._without_disputed(node, agent)
        simulated = agent.status.simulated
        self.gpus |= {
            gpu.uuid: GpuFacts(memory_mib=gpu.memory_mib, simulated=simulated, resource=gpu.resource)
            for gpu in node.gpus
        }
        self._resources |= {gpu.uuid: gpu.resource for gpu in node.gpus if gpu.resource}
        self._note_requests(node, load.devices)
        return replace(node, gpus=self._missing.update(name, node.gpus, now))

    def _silent(self, now: float) -> set[str]:
        """Nodes whose agents have fallen silent since the last look."""
        known = self._state.nodes
        ready = (name for name in self._index.gpu_nodes if name in known and known[name].ready)
        return {name for name in ready if not self._heartbeats.is_fresh(name, now)}

    def restore(self) -> None:
        """Forget heartbeats: nothing is known of them while another replica led."""
        self._heartbeats.forget()

    def isolation_on(self, node: str) -> NodeIsolation:
        """What this node can do to keep pods apart, by its agent's last report."""
        return reported_isolation(self._index.gpu_nodes.get(node), self._resources, claims=self._claims)

    def verify_isolation(
        self,
        placement: Placement,
        pods: Mapping[int, PodRecord] = MappingProxyType({}),
        seen: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> Verification:
        """Check a placement against the pods of its attempt, by node rank, and against the GPUs that ranks see.

        On a node without an agent, the GPUs that ranks see are not checked.
        """
        found = []
        for node_rank, node in enumerate(placement.nodes):
            agent, pod = self._index.gpu_nodes.get(node.node), pods.get(node_rank)
            evidence = evidence_of(agent, pod.uid if pod else "", {} if agent is None else seen)
            found.append(verified(node, self.isolation_on(node.node), evidence))
        return verified_together(found)

    def sick_gpus(self, placement: Placement) -> dict[str, str]:
        """GPU UUID → health of those GPUs of a placement that must be drained, by their agent or by NVIDIA's GPU
        Operator.
        """
        found: dict[str, str] = {}
        for node in placement.nodes:
            agent, facts = self._index.gpu_nodes.get(node.node), self._index.facts.get(node.node)
            of_job = node.uuids
            if facts is not None and facts.drained_by:
                found |= dict.fromkeys(of_job, f"{names.HEALTH_DRAINED}: {facts.drained_by}")
                continue
            found |= {gpu.uuid: gpu.health for gpu in (agent.status.gpus if agent else ())
                      if gpu.drain and gpu.uuid in of_job}  # fmt: skip
        return found

    def held_milli(self, placement: Placement) -> int:
        """Milli-GPU that the placement holds. Each share counts by its larger dimension, rounded up."""
        return sum(
            self._grant_milli(gpu.uuid, gpu.memory_mib, gpu.compute_milli)
            for node in placement.nodes
            for rank in node.ranks
            for gpu in rank.gpus
        )

    def gpu_class_of(self, placement: Placement) -> str:
        """Class of the placement's GPUs, which all have one class; empty if their node does not list them now."""
        first = placement.nodes[0]
        agent, granted = self._index.gpu_nodes.get(first.node), first.ranks[0].gpus
        listed = agent.status.gpus if agent and granted else ()
        return next((gpu.gpu_class for gpu in listed if gpu.uuid == granted[0].uuid), "")

    def _grant_milli(self, uuid: str, memory_mib: int, compute_milli: int) -> int:
        facts = self.gpus.get(uuid)
        return compute_milli if facts is None else Amounts.of_share(memory_mib, compute_milli, facts.memory_mib).milli

    def violations(self, pods: Mapping[str, PodRecord]) -> dict[str, Violation]:
        """GPU memory used beyond a share, by uid of the pod."""
        found: dict[str, Violation] = {}
        for node in {pod.node for pod in pods.values() if pod.node}:
            seen = self._index.gpu_nodes.get(node)
            found |= {violation.pod_uid: violation for violation in (seen.status.violations if seen else ())}
        return found
