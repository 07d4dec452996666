"""Where the leader is: the address in the EndpointSlice of the Service that the aggregator asks.

The Service has no selector, so no controller writes its slices: the chart makes one for each family of addresses, and
the leader, which alone can answer, puts itself into the one of its own. The write passes the fence of leadership.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from cotenant.controller.client.kube import ENDPOINT_SLICES, Kube, UnreachableError

log = logging.getLogger(__name__)

SERVICE: Final = "cotenant-query"
LOOK_S: Final = 5.0
"""Between two looks at the slice, which an upgrade of the chart may have emptied."""


@dataclass(slots=True, kw_only=True)
class LeaderEndpoint:
    kube: Kube
    namespace: str
    address: str
    """Of this replica's pod."""
    is_leader: Callable[[], bool]

    async def run(self) -> None:
        while True:
            if self.is_leader():
                try:
                    await self.publish()
                except UnreachableError as error:
                    log.warning("the address of the leader is not published yet: %s", error)
            await asyncio.sleep(LOOK_S)

    async def publish(self) -> None:
        """Make this replica the one endpoint, unless it is."""
        name = f"{SERVICE}-ipv{ip_address(self.address).version}"
        found = await self.kube.get(ENDPOINT_SLICES, name, self.namespace)
        if not found.done:
            log.warning("EndpointSlice %s is not there: questions are not answered; %s", name, found.message)
            return
        wanted: list[dict[str, Any]] = [{"addresses": [self.address], "conditions": {"ready": True}}]
        if found.document.get("endpoints") == wanted:
            return
        version = found.document["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "endpoints": wanted}
        reply = await self.kube.patch(ENDPOINT_SLICES, name, body, namespace=self.namespace)
        if not reply.done:
            log.warning("the address of the leader was not written: %s", reply.message)
