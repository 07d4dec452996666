"""Publishes the leader's address in the EndpointSlice of the Service that the aggregator calls.

The Service has no selector, so no controller writes its slices. The leader, the only replica that can answer, makes the
slice for its address family and puts its own address into it. GitOps tools leave such slices out. Writes pass the
leader's fence.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from cotenant.controller.client.kube import ENDPOINT_SLICES, SERVICES, Kube, Outcome

log = logging.getLogger(__name__)

SERVICE: Final = "cotenant-query"
MANAGER: Final = "operator.cotenant.dev"
LOOK_S: Final = 5.0
"""Between two looks at the slice, which somebody may have emptied or deleted."""


@dataclass(slots=True, kw_only=True)
class LeaderEndpoint:
    kube: Kube
    namespace: str
    address: str
    """Address of this replica's pod."""
    port: int

    async def publish(self) -> None:
        """Make this replica the only endpoint, unless it is already."""
        family = ip_address(self.address).version
        name = f"{SERVICE}-ipv{family}"
        found = await self.kube.get(ENDPOINT_SLICES, name, self.namespace)
        if found.outcome is Outcome.MISSING:
            await self._create(name, f"IPv{family}")
            return
        if not found.done:
            log.warning("questions are not answered: EndpointSlice %s cannot be read: %s", name, found.message)
            return
        wanted = {"endpoints": self._endpoints, "ports": self._ports}
        if {key: found.document.get(key) for key in wanted} == wanted:
            return
        version = found.document["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, **wanted}
        reply = await self.kube.patch(ENDPOINT_SLICES, name, body, namespace=self.namespace)
        if not reply.done:
            log.warning("the address of the leader was not written: %s", reply.message)

    async def _create(self, name: str, family: str) -> None:
        """Make a slice that belongs to the Service and is deleted with it."""
        service = await self.kube.get(SERVICES, SERVICE, self.namespace)
        if not service.done:
            log.warning("questions are not answered: Service %s is not there: %s", SERVICE, service.message)
            return
        owner = {"apiVersion": "v1", "kind": "Service", "name": SERVICE, "uid": service.document["metadata"]["uid"]}
        labels = {"kubernetes.io/service-name": SERVICE, "endpointslice.kubernetes.io/managed-by": MANAGER}
        document: dict[str, Any] = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels, "ownerReferences": [owner]},
            "addressType": family,
            "endpoints": self._endpoints,
            "ports": self._ports,
        }
        reply = await self.kube.create(ENDPOINT_SLICES, document, self.namespace)
        if not reply.done:
            log.warning("questions are not answered: EndpointSlice %s was not made: %s", name, reply.message)

    @property
    def _endpoints(self) -> list[dict[str, Any]]:
        return [{"addresses": [self.address], "conditions": {"ready": True}}]

    @property
    def _ports(self) -> list[dict[str, Any]]:
        return [{"name": "query", "port": self.port, "protocol": "TCP"}]
