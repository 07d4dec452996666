"""Keeps what others hold counted in the core's state: GPUs of ResourceClaims, and whole devices of pods."""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.controller.cluster.foreign.foreign_claims import claim_holder, claim_key
from cotenant.controller.cluster.foreign.foreign_devices import devices_holder, devices_key
from cotenant.controller.cluster.gpu_holders import GpuHolders
from cotenant.controller.cluster.nodes.cluster_nodes import ClusterNodes
from cotenant.controller.informers.claim_index import ClaimIndex
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import JobGone, JobObserved


class HeldByOthers:
    def __init__(self, claims: ClaimIndex, nodes: ClusterNodes, gpu_holders: GpuHolders, state: ClusterState) -> None:
        self._claims = claims
        self._nodes = nodes
        self._gpu_holders = gpu_holders
        self._state = state
        self._with_devices: set[str] = set()
        """Nodes on which pods of others hold devices."""

    def sync_claims(self, keys: Iterable[str]) -> bool:
        """Count the listed GPUs that ResourceClaims of others hold."""
        changed = False
        for key in keys:
            claim = self._claims.get(key)
            holder = claim_holder(claim, self._nodes.known()) if claim is not None else None
            changed |= self._count(claim_key(key), holder)
        return changed

    def sync_devices(self) -> bool:
        """Count devices that pods of others hold, or that are not offered, of the kind that the kubelet hands out."""
        requested, changed = self._nodes.requested, False
        for name in sorted(self._with_devices | requested.keys()):
            node, key = self._nodes.known().get(name), devices_key(name)
            holder = None
            if node is not None and name in requested:
                holder = devices_holder(node, requested[name], self._gpu_holders.held_on(node) | self._assumed_on(name))
            self._with_devices.discard(name)
            if holder is not None:
                self._with_devices.add(name)
            changed |= self._count(key, holder)
        return changed

    def _assumed_on(self, node: str) -> set[str]:
        """UUIDs of the node's GPUs that jobs hold, including assumed placements that are not observed yet."""
        return {
            grant.uuid
            for job in self._state.assumed()
            for part in (job.placement.nodes if job.placement else ())
            if part.node == node
            for rank in part.ranks
            for grant in rank.gpus
        }

    def _count(self, key: JobKey, holder: Job | None) -> bool:
        """Count this holder under its key from now on; None if it holds nothing any more."""
        self._gpu_holders.replace(self._state.jobs.get(key), holder, orphaned=True)
        return self._state.observe(JobGone(key) if holder is None else JobObserved(holder))
