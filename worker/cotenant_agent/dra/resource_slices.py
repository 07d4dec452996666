"""ResourceSlices of a node: every GPU is a device whose memory and compute many claims may share. Pure.

The scheduler rounds a request for less than a whole GPU up to these steps; a request without an amount takes all. A GPU
that must not be handed out stays in its slice with a taint: its holders go on, and no new claim gets it. A GPU that no
longer computes has a second taint, by which Kubernetes ends the pods that do not tolerate it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant.api.conversion.device_claims import COMPUTE, MEMORY, UUID, device_name, memory_quantity
from cotenant.api.scalars.quantities import parse_kubernetes
from cotenant.names import DRA_DRIVER, GROUP, LABEL_MANAGED_BY, MANAGED_BY, TAINT_DRAIN, TAINT_HELD
from cotenant_agent.gpus.readings import Gpu

API_VERSION: Final = "resource.k8s.io/v1"
WHOLE_MILLI: Final = 1000
DEVICES_MAX: Final = 64
"""Devices in one slice, if they may have taints."""
TAINT_UNHEALTHY: Final = f"{GROUP}/unhealthy"
TEXT_MAX: Final = 64
"""Characters of a string attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """A GPU as it is offered now."""

    gpu: Gpu
    unhealthy: str = ""
    """Why the GPU is not handed out; empty if it is."""
    drains: bool = False
    """True if its holders have to leave."""
    held: bool = False
    """True if a pod holds it without a claim, so that the scheduler does not count it."""


def slices(node: Mapping[str, Any], offered: Iterable[GpuDevice], generation: int) -> list[dict[str, Any]]:
    """The whole pool of a v1 Node. All slices carry one generation, so the scheduler recognizes a half-written pool."""
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    devices = [device(one) for one in sorted(offered, key=lambda one: (one.gpu.index, one.gpu.uuid)) if not one.gpu.mig]
    parts: list[list[dict[str, Any]]] = [devices[at : at + DEVICES_MAX] for at in range(0, len(devices), DEVICES_MAX)]
    parts = parts or [[]]
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": {
                "name": slice_name(name, number),
                "labels": {LABEL_MANAGED_BY: MANAGED_BY},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": True}],
            },
            "spec": {
                "driver": DRA_DRIVER,
                "nodeName": name,
                "pool": {"name": name, "generation": generation, "resourceSliceCount": len(parts)},
                "devices": part,
            },
        }
        for number, part in enumerate(parts)
    ]


def slice_name(node: str, number: int) -> str:
    """Name of the slice. The name of the Node may already have the greatest length."""
    name = f"{node}-{DRA_DRIVER}-{number}"
    return name if len(name) <= 253 else f"{hashlib.sha256(node.encode()).hexdigest()[:40]}-{DRA_DRIVER}-{number}"


def device(offered: GpuDevice) -> dict[str, Any]:
    gpu = offered.gpu
    memory = memory_quantity(gpu.memory_mib)
    found = {
        "name": device_name(gpu.uuid),
        "allowMultipleAllocations": True,
        "attributes": attributes(gpu),
        "capacity": {
            MEMORY: {"value": memory, "requestPolicy": request_policy(memory, "1Mi")},
            COMPUTE: {"value": str(WHOLE_MILLI), "requestPolicy": request_policy(str(WHOLE_MILLI), "1")},
        },
    }
    return found | ({"taints": wanted} if (wanted := taints(offered)) else {})


def request_policy(whole: str, step: str) -> dict[str, Any]:
    return {"default": whole, "validRange": {"min": step, "max": whole, "step": step}}


def attributes(gpu: Gpu) -> dict[str, Any]:
    """Attributes of the device. A name without a domain belongs to the driver."""
    found: dict[str, Any] = {
        UUID: {"string": gpu.uuid[:TEXT_MAX]},
        "class": {"string": gpu.gpu_class[:TEXT_MAX]},
        "index": {"int": gpu.index},
        "nvlinkDomain": {"string": nvlink_domain(gpu)},
    }
    if gpu.product:
        found["productName"] = {"string": gpu.product[:TEXT_MAX]}
    if gpu.pci_bus_id:
        found["pciBusID"] = {"string": gpu.pci_bus_id[:TEXT_MAX]}
    if gpu.parent:
        found |= {"profile": {"string": gpu.profile[:TEXT_MAX]}, "parentUUID": {"string": gpu.parent[:TEXT_MAX]}}
    if gpu.numa_node is not None:
        found["numaNode"] = {"int": gpu.numa_node}
    return found


def nvlink_domain(gpu: Gpu) -> str:
    """A name that is equal for GPUs that all reach each other by NVLink: the smallest UUID of the group."""
    return min([gpu.uuid, *gpu.peers])[:TEXT_MAX]


def taints(offered: GpuDevice) -> list[dict[str, str]]:
    found = []
    if offered.unhealthy:
        # A value is a label's; the words are in the GPUNode.
        word = re.sub(r"[^A-Za-z0-9]+", "", offered.unhealthy.partition(":")[0])[:63] or "Unknown"
        found.append({"key": TAINT_UNHEALTHY, "value": word, "effect": "NoSchedule"})
    if offered.drains:
        found.append({"key": TAINT_DRAIN, "effect": "NoExecute"})
    if offered.held:
        found.append({"key": TAINT_HELD, "effect": "NoSchedule"})
    return found


def same_devices(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """True if two pools offer the same devices, whatever their generations and the defaults that the API server fills
    in.
    """
    return _essence(one) == _essence(other)


def dropped_taints(wanted: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]]) -> bool:
    """True if the API server has removed taints from a pool that it accepted."""
    return bool(_tainted(wanted) - _tainted(kept))


def _tainted(pool: Sequence[Mapping[str, Any]]) -> set[str]:
    return {device["name"] for one in pool for device in one["spec"].get("devices") or () if device.get("taints")}


def _essence(pool: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = {}
    for one in pool:
        spec = one["spec"]
        owners = [owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()]
        devices = [_plain_device(device) for device in spec.get("devices") or ()]
        found[one["metadata"]["name"]] = (spec["pool"]["resourceSliceCount"], owners, devices)
    return found


def _plain_device(device: Mapping[str, Any]) -> dict[str, Any]:
    """The device without what the API server writes its own way: amounts (1000 is `1k`) and times of taints."""
    capacity = {
        name: [parse_kubernetes(entry["value"]), *sorted(
            (key, parse_kubernetes(amount))
            for key, amount in ({"default": policy.get("default", 0)} | (policy.get("validRange") or {})).items()
        )]
        for name, entry in (device.get("capacity") or {}).items()
        for policy in (entry.get("requestPolicy") or {},)
    }  # fmt: skip
    known = [(one["key"], one.get("value", ""), one["effect"]) for one in device.get("taints") or ()]
    return dict(device) | {"capacity": capacity, "taints": known}
