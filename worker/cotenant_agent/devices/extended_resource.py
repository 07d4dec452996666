"""Whole devices as the kubelet counts them: an extended resource of the Node, offered by its maker's device plugin.

The plugin tells the kubelet how many devices exist and how many are healthy, and the kubelet writes both into the Node:
capacity and allocatable. The Node names no device, and the kubelet chooses which one a container gets. So the devices
listed here are interchangeable, and the last ones stand for those that are not offered. Names and sizes come from the
labels that the makers' labellers write, and the class also from the administrator's label.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant_agent.gpus.readings import Gpu, GpuInventory, GpuSample, GpuSource, GpuSourceError


@dataclass(frozen=True, slots=True)
class Maker:
    """What a maker's labels on the Node say of its devices."""

    name: str
    """Prefix of the UUIDs, and the class if no label names one."""
    class_label: str = ""
    memory_label: str = ""


MAKERS: Final[Mapping[str, Maker]] = {
    "amd.com/gpu": Maker("AMD", "amd.com/gpu.product-name", "amd.com/gpu.vram"),
    "google.com/tpu": Maker("TPU", "cloud.google.com/gke-tpu-accelerator"),
    "habana.ai/gaudi": Maker("Gaudi"),
}
MIB_PER: Final = {"M": 1, "G": 1024, "T": 1024 * 1024}
UNNAMED_SERIES: Final = re.compile(r"(?:^|_)(MI\d+[A-Z]*)(?:_|$)")
"""Product names of AMD with a series in front: AMD_Instinct_MI300X_OAM is called MI300X."""


class ExtendedResourceSource(GpuSource):
    """One resource of the node, chosen at the first read.

    Devices stay listed while the agent runs. Those that the Node no longer offers have no sample, so they are not
    handed out.
    """

    def __init__(self, node: str, resources: Sequence[str], read: Callable[[], Mapping[str, Any]]) -> None:
        """`read` returns the v1 Node. It raises GpuSourceError if the Node cannot be read."""
        self._name, self._read = node, read
        self.resource = _offered(node, resources, read())
        self._most = 0

    def inventory(self) -> GpuInventory:
        node = self._read()
        self._most = max(self._most, _number(node, "capacity", self.resource), self._healthy(node))
        labels = node["metadata"].get("labels") or {}
        maker = MAKERS.get(self.resource) or Maker(self.resource.partition("/")[2])
        gpus = tuple(
            Gpu(
                uuid=device_uuid(maker.name, self._name, index),
                index=index,
                gpu_class=class_in(labels.get(maker.class_label, "")) or maker.name,
                memory_mib=memory_in(labels.get(maker.memory_label, "")),
                product=labels.get(maker.class_label, ""),
                resource=self.resource,
            )
            for index in range(self._most)
        )
        return GpuInventory(simulated=False, gpus=gpus)

    def samples(self) -> tuple[GpuSample, ...]:
        """Samples of the devices that are offered now. Their use is unknown, because the kubelet shows no
        identities.
        """
        healthy = self._healthy(self._read())
        return tuple(GpuSample(uuid=gpu.uuid) for gpu in self.inventory().gpus if gpu.index < healthy)

    def _healthy(self, node: Mapping[str, Any]) -> int:
        return _number(node, "allocatable", self.resource)

    def reset(self, uuid: str) -> str:
        return f"devices of {self.resource} are reset by their maker's tools"


def device_uuid(maker: str, node: str, index: int) -> str:
    """A UUID that survives restarts and differs between nodes."""
    return f"{maker}-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{node}.devices.cotenant.dev')}"


def class_in(product: str) -> str:
    """The short name of a product, such as people use it."""
    series = UNNAMED_SERIES.search(product)
    return series[1] if series else product


def memory_in(label: str) -> int:
    """MiB of a label such as `192G`, in powers of two; 0 if it cannot be read."""
    amount = re.fullmatch(r"(\d+)([MGT])i?B?", label)
    return int(amount[1]) * MIB_PER[amount[2]] if amount else 0


def _offered(name: str, resources: Sequence[str], node: Mapping[str, Any]) -> str:
    """The one of the resources that the node has. Raises GpuSourceError."""
    found = [one for one in resources if _number(node, "capacity", one)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise GpuSourceError(f"Node {name} offers none of {', '.join(resources)}: does their device plugin run there?")
    raise GpuSourceError(f"Node {name} offers {' and '.join(found)}: an agent publishes devices of one kind")


def _number(node: Mapping[str, Any], part: str, resource: str) -> int:
    written = str(((node.get("status") or {}).get(part) or {}).get(resource, "0"))
    return int(written) if written.isdigit() else 0
