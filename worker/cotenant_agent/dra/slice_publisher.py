"""Keeps the published pool of this node equal to its GPUs, and notices fields that the cluster does not store."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kubernetes.client.exceptions import ApiException

from cotenant_agent.dra import resource_slices
from cotenant_agent.dra.resource_client import ResourceClient
from cotenant_agent.dra.resource_slices import GpuDevice
from cotenant_agent.reports.gpunode_client import UNREACHABLE, error_summary

log = logging.getLogger("cotenant.agent.dra")

RETRY_S: Final = 5.0
FEATURE_OFF_RETRY_S: Final = 600.0
NOT_SERVED: Final = "the cluster does not serve resource.k8s.io/v1, which Kubernetes has from 1.34 on"
CONSUMABLE: Final = "allowMultipleAllocations"


@dataclass(frozen=True, slots=True)
class PoolChange:
    write: tuple[Mapping[str, Any], ...] = ()
    delete: tuple[str, ...] = ()


def pool_change(
    node: Mapping[str, Any], offered: Iterable[GpuDevice], seen: Mapping[str, Mapping[str, Any]]
) -> PoolChange:
    """The writes after which the pool offers these devices: none, or all slices at the next generation."""
    offered = list(offered)
    generations = {one["spec"]["pool"]["generation"] for one in seen.values()}
    current = resource_slices.slices(node, offered, max(generations, default=0))
    if len(generations) == 1 and resource_slices.same_devices(current, list(seen.values())):
        return PoolChange()
    wanted = resource_slices.slices(node, offered, max(generations, default=0) + 1)
    names = {one["metadata"]["name"] for one in wanted}
    return PoolChange(tuple(wanted), tuple(sorted(seen.keys() - names)))


class SlicePublisher:
    """`turn` must be called by one thread. `reason` says why the devices are not offered; empty if they are."""

    def __init__(self, client: ResourceClient) -> None:
        self._client = client
        self._quiet_until = 0.0
        self._taints_off = False
        self.reason = "the API server has not been asked yet"

    def turn(self, node: Mapping[str, Any], offered: Iterable[GpuDevice], now: float) -> None:
        """Bring the pool up to date. `node` is the v1 Node, `now` any monotonic clock."""
        if self._client.served is False:
            self.reason = NOT_SERVED
            return
        seen = self._client.seen()
        if seen is None or now < self._quiet_until:
            return
        change = pool_change(node, self._offerable(offered), seen)
        try:
            kept: list[Mapping[str, Any]] = [self._client.write(document) for document in change.write]
            for name in change.delete:
                self._client.delete(name)
        except UNREACHABLE as error:
            self._quiet_until = now + RETRY_S
            if not (isinstance(error, ApiException) and error.status == 409):  # the watch brings what is there
                self.reason = f"ResourceSlices cannot be written: {error_summary(error)}"
                log.warning("%s", self.reason)
            return
        self._read_back(change.write, kept or tuple(seen.values()), now)

    def _offerable(self, offered: Iterable[GpuDevice]) -> list[GpuDevice]:
        """The devices to offer. If the cluster does not store taints, GPUs that must not be handed out are left out."""
        if not self._taints_off:
            return list(offered)
        return [replace(one, held=False) for one in offered if not one.unhealthy and not one.held]

    def _read_back(self, wanted: Iterable[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]], now: float) -> None:
        """Check what was stored. A disabled feature drops its fields silently, and shares would be handed out as whole
        devices.
        """
        wanted = list(wanted)
        if any(not one.get(CONSUMABLE) for part in kept for one in part["spec"].get("devices") or ()):
            self._quiet_until = now + FEATURE_OFF_RETRY_S
            self.reason = "DRAConsumableCapacity is off in this cluster: it is on from Kubernetes 1.36 on"
            log.warning("no GPU is offered by DRA: %s", self.reason)
            for part in kept:
                self._client.delete(part["metadata"]["name"])
            return
        if wanted and resource_slices.dropped_taints(wanted, kept):
            self._taints_off = True
            log.warning("DRADeviceTaints is off in this cluster: GPUs that are not to be handed out are left out")
        self.reason = ""
