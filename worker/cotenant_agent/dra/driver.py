"""The DRA driver: answers the kubelet, keeps prepared claims on disk, and publishes slices.

Calls of the kubelet come in threads of the gRPC server, `turn` in the agent's own. One lock protects the prepared
claims.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.api.conversion.device_claims import AllocatedClaim, allocated_claim
from cotenant.names import DRA_DRIVER
from cotenant_agent.dra import cdi_spec, prepared_claims
from cotenant_agent.dra.claim_store import ClaimStore
from cotenant_agent.dra.kubelet_plugin import ClaimRef, KubeletPlugin
from cotenant_agent.dra.prepared_claims import PreparedClaim, PreparedClaims, RefusedClaimError
from cotenant_agent.dra.resource_client import ResourceClient
from cotenant_agent.dra.resource_slices import GpuDevice
from cotenant_agent.dra.slice_publisher import SlicePublisher
from cotenant_agent.enforcement.quota import PodGpu
from cotenant_agent.gpus.readings import Gpu
from cotenant_agent.reports.gpunode_client import UNREACHABLE, error_summary
from cotenant_agent.reports.node_status import unhealthy_reason
from cotenant_agent.reports.node_view import NodeView

log = logging.getLogger("cotenant.agent.dra")


class ClaimNamespaces:
    """The MPS namespaces of claims. This node has none."""

    def assigned(self, before: PreparedClaims, claim: PreparedClaim, gpus: Iterable[Gpu]) -> PreparedClaim:
        """The claim with the namespaces that it gets, given the prepared ones."""
        return claim

    def hold(self, claims: Iterable[PreparedClaim]) -> None:
        """Have namespaces for exactly these claims."""

    def settle(self, claim: PreparedClaim) -> None:
        """Return once the namespaces exist. Raises RefusedClaimError."""

    def pipes(self, claim: PreparedClaim) -> dict[str, str]:
        """UUID → folder of the claim's namespace on that GPU."""
        return {}


@dataclass(frozen=True, slots=True)
class DriverFolders:
    """Folders, by the host's paths."""

    kubelet: Path
    specs: Path
    """Folder in which the container runtime looks for CDI specifications."""


class Driver:
    """`running_pods` returns the uids of pods with living processes; None if that is unknown."""

    def __init__(
        self,
        node: Mapping[str, Any],
        client: ResourceClient,
        folders: DriverFolders,
        running_pods: Callable[[], frozenset[str] | None],
    ) -> None:
        self._node, self._client, self._running = node, client, running_pods
        self._store = ClaimStore(folders.kubelet / "plugins" / DRA_DRIVER / "claims", folders.specs)
        self._plugin = KubeletPlugin(folders.kubelet, self.prepare, self.unprepare)
        self._publisher = SlicePublisher(client)
        self.namespaces = ClaimNamespaces()
        self._lock = threading.Lock()
        self._gpus: dict[str, Gpu] = {}
        self._prepared: dict[str, PreparedClaim] = {}
        self._unclaimed: dict[str, PreparedClaim] = {}
        """Uid of a pod → what it holds, for pods of the operator that have no claim."""

    def start(self, gpus: Iterable[Gpu]) -> None:
        """Read the prepared claims from disk, then start to answer the kubelet."""
        self._gpus = {gpu.uuid: gpu for gpu in gpus}
        self._prepared = self._store.load()
        for claim in self._prepared.values():
            self._store.write_spec(claim.uid, self._spec(claim))
        self._store.remove_other_specs(self._prepared)
        self.namespaces.hold(self._prepared.values())
        self._plugin.start()
        log.info("DRA driver %s, %d claims prepared", DRA_DRIVER, len(self._prepared))

    def stop(self) -> None:
        self._plugin.stop()

    def reason(self) -> str:
        """Why pods cannot get GPUs of this node by claims; empty if they can."""
        if self._publisher.reason:
            return self._publisher.reason
        if not self._plugin.registered:
            return f"the kubelet has not registered the driver {self._plugin.refusal}".rstrip()
        return ""

    def turn(self, view: NodeView, now: float) -> None:
        """Publish what this view of the node offers."""
        self._gpus = {gpu.uuid: gpu for gpu in view.inventory.gpus}
        if view.holders is None:
            return  # which GPUs are held without a claim is not known yet
        with self._lock:
            claimed = {uid for claim in self._prepared.values() for uid in claim.pods}
        grants = (holder.grant for holder in view.holders.values())
        self._unclaimed = {
            grant.pod_uid: prepared_claims.without_claim(grant)
            for grant in grants
            if grant.pod_uid not in claimed and not grant.claimed
        }
        held = {one.uuid for claim in self._unclaimed.values() for one in claim.devices}
        offered = [
            GpuDevice(
                gpu=gpu,
                unhealthy=unhealthy_reason(view, gpu),
                drains=view.health.drains(gpu.uuid),
                held=gpu.uuid in held,
            )
            for gpu in view.inventory.gpus
        ]
        self._publisher.turn(self._node, offered, now)

    def claimed(self) -> dict[PodGpu, int]:
        """Uid of a pod → MiB of each GPU that its prepared claims hold."""
        found: dict[PodGpu, int] = {}
        with self._lock:
            for claim in self._prepared.values():
                for pod, one in itertools.product(claim.pods, claim.devices):
                    on_gpu = PodGpu(pod, one.uuid)
                    found[on_gpu] = found.get(on_gpu, 0) + one.memory_mib
        return found

    def prepare(self, ref: ClaimRef) -> PreparedClaim:
        """Prepare a claim. It counts as prepared once it is on disk; the kubelet gets the answer once its namespaces
        exist too.
        """
        claim = self._known(ref) or self._new(ref)
        self.namespaces.settle(claim)
        return claim

    def _known(self, ref: ClaimRef) -> PreparedClaim | None:
        with self._lock:
            if (known := self._prepared.get(ref.uid)) is not None:
                self._store.write_spec(known.uid, self._spec(known))
        return known

    def _new(self, ref: ClaimRef) -> PreparedClaim:
        claim = self._allocated(ref)
        with self._lock:
            try:
                new = self._fitted(claim)
            except RefusedClaimError:
                if not self._forget_departed():
                    raise
                new = self._fitted(claim)
            self._store.save(new, self._spec(new))
            self._prepared[new.uid] = new
            self.namespaces.hold(self._prepared.values())
        log.info("claim %s/%s is prepared", ref.namespace, ref.name)
        return new

    def unprepare(self, ref: ClaimRef) -> None:
        """Give a claim back. A claim that was never prepared counts as given back."""
        with self._lock:
            self._store.forget(ref.uid)
            self._prepared.pop(ref.uid, None)
            self.namespaces.hold(self._prepared.values())
        log.info("claim %s/%s is given back", ref.namespace, ref.name)

    def _fitted(self, claim: AllocatedClaim) -> PreparedClaim:
        holders = {**self._unclaimed, **self._prepared}
        gpus = self._gpus.values()
        new = prepared_claims.prepared(holders, claim, gpus, self._node["metadata"]["name"])
        return self.namespaces.assigned(holders, new, gpus)

    def _spec(self, claim: PreparedClaim) -> dict[str, Any]:
        return cdi_spec.spec(claim, self._gpus, self.namespaces.pipes(claim))

    def _allocated(self, ref: ClaimRef) -> AllocatedClaim:
        try:
            document = self._client.claim(ref.namespace, ref.name)
        except UNREACHABLE as error:
            raise RefusedClaimError(f"the claim cannot be read: {error_summary(error)}") from error
        if document is None or document["metadata"].get("uid") != ref.uid:
            raise RefusedClaimError(f"the claim {ref.uid} is gone")
        found = allocated_claim(document)
        if found is None:
            raise RefusedClaimError("no GPU of this driver is allocated to the claim")
        return found

    def _forget_departed(self) -> bool:
        """Give back claims that no longer exist and whose pods do not run: a kubelet that has lost its state never
        asks.
        """
        running = self._running()
        if running is None:
            return False
        stopped = [claim for claim in self._prepared.values() if not running & set(claim.pods)]
        departed = [claim for claim in stopped if self._is_gone(claim)]
        for claim in departed:
            log.warning("claim %s/%s is gone and nothing of it runs: given back", claim.namespace, claim.name)
            self._store.forget(claim.uid)
            del self._prepared[claim.uid]
        self.namespaces.hold(self._prepared.values())
        return bool(departed)

    def _is_gone(self, claim: PreparedClaim) -> bool:
        try:
            document = self._client.claim(claim.namespace, claim.name)
        except UNREACHABLE:
            return False
        return document is None or document["metadata"].get("uid") != claim.uid
