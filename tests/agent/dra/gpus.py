"""Two GPUs, claims on them, and an API server in memory: for the tests of the DRA driver."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kubernetes.client.exceptions import ApiException

from cotenant_agent.dra.resource_client import ResourceClient
from cotenant_agent.gpus.readings import Gpu

NODE = {"metadata": {"name": "n1", "uid": "node-uid"}}
A = Gpu(uuid="GPU-A", index=0, gpu_class="H100", memory_mib=81_920, minor=3, peers=("GPU-B",), numa_node=1)
B = Gpu(uuid="GPU-B", index=1, gpu_class="H100", memory_mib=81_920, minor=4, peers=("GPU-A",), product="H100 80GB")


def result(device: str, memory: str | None = "20Gi", compute: str | None = "200") -> dict[str, Any]:
    amounts = {name: amount for name, amount in (("memory", memory), ("compute", compute)) if amount}
    made = {"request": "g", "driver": "gpu.cotenant.dev", "pool": "n1", "device": device}
    return made | ({"consumedCapacity": amounts} if amounts else {})


def claim(name: str, *results: dict[str, Any], pods: tuple[str, ...] = ()) -> dict[str, Any]:
    """An allocated ResourceClaim whose uid is its name's."""
    return {
        "metadata": {"namespace": "guests", "name": name, "uid": f"{name}-uid"},
        "status": {
            "allocation": {"devices": {"results": list(results)}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": pod} for pod in pods],
        },
    }


class FakeResourceApi(ResourceClient):
    """`drops`: fields of devices that the API server leaves out, as where their feature is off."""

    def __init__(self, *claims: dict[str, Any], drops: tuple[str, ...] = ()) -> None:
        self.served: bool | None = True
        self.claims = {one["metadata"]["name"]: one for one in claims}
        self.slices: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.drops = drops
        self.down = False

    def seen(self) -> dict[str, dict[str, Any]] | None:
        return copy.deepcopy(self.slices)

    def write(self, document: Mapping[str, Any]) -> dict[str, Any]:
        self._answer()
        kept = copy.deepcopy(dict(document))
        for device in kept["spec"]["devices"]:
            for field in self.drops:
                device.pop(field, None)
        self.writes += 1
        self.slices[kept["metadata"]["name"]] = kept
        return kept

    def delete(self, name: str) -> None:
        self.slices.pop(name, None)

    def claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        self._answer()
        return self.claims.get(name)

    def _answer(self) -> None:
        if self.down:
            raise ApiException(status=503, reason="Service Unavailable")

    def devices(self) -> dict[str, dict[str, Any]]:
        return {device["name"]: device for one in self.slices.values() for device in one["spec"]["devices"]}
