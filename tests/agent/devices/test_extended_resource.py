"""Devices as the kubelet counts them: how many, of what class; what is not offered is not handed out."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.resources.gpunodes import GPUNodeStatus
from cotenant_agent.devices.extended_resource import ExtendedResourceSource, class_in, device_uuid, memory_in
from cotenant_agent.enforcement.attribution import GONE
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.gpus.capabilities import Capabilities
from cotenant_agent.gpus.readings import AskedLimit, GpuSourceError
from cotenant_agent.reports import node_status
from cotenant_agent.reports.node_view import NodeObserver

RESOURCES = ("amd.com/gpu", "google.com/tpu", "habana.ai/gaudi")
NOW = 1_700_000_000.0
MI300X = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}


class FakeNode:
    """A Node whose device plugin is played."""

    def __init__(self, resource: str, number: int, labels: dict[str, str] | None = None) -> None:
        self.labels = labels or {}
        self.capacity, self.allocatable = {resource: str(number), "cpu": "8"}, {resource: str(number), "cpu": "8"}

    def read(self) -> dict[str, Any]:
        return {
            "metadata": {"name": "n1", "labels": self.labels},
            "status": {"capacity": self.capacity, "allocatable": self.allocatable},
        }

    def source(self) -> ExtendedResourceSource:
        return ExtendedResourceSource("n1", RESOURCES, self.read)


def published(source: ExtendedResourceSource) -> dict[str, Any]:
    observer = NodeObserver(source.inventory(), Capabilities(), owner=lambda _: GONE, attributing=True)
    return node_status.build(observer.observe(source.samples(), PodsOnNode(), NOW))


@pytest.mark.parametrize(
    ("resource", "labels", "gpu_class", "memory_mib"),
    [
        ("amd.com/gpu", MI300X, "MI300X", 192 * 1024),
        ("amd.com/gpu", {}, "AMD", 0),
        ("google.com/tpu", {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"}, "tpu-v5-lite-podslice", 0),
        ("habana.ai/gaudi", {}, "Gaudi", 0),
    ],
)
def test_a_node_offers_its_devices_with_the_class_and_the_memory_that_its_labels_say(
    resource: str, labels: dict[str, str], gpu_class: str, memory_mib: int
) -> None:
    inventory = FakeNode(resource, 2, labels).source().inventory()
    assert [(gpu.index, gpu.gpu_class, gpu.memory_mib, gpu.resource) for gpu in inventory.gpus] == [
        (0, gpu_class, memory_mib, resource),
        (1, gpu_class, memory_mib, resource),
    ]
    assert inventory.resource == resource
    assert not inventory.simulated


def test_devices_keep_their_names_and_no_other_node_has_them() -> None:
    names = [device_uuid("AMD", node, index) for node in ("n1", "n2") for index in (0, 1)]
    assert len(set(names)) == 4
    assert [gpu.uuid for gpu in FakeNode("amd.com/gpu", 2).source().inventory().gpus] == names[:2]


def test_the_status_says_who_hands_them_out_and_what_that_holds() -> None:
    status = published(FakeNode("amd.com/gpu", 2, MI300X).source())
    assert (status["summary"], status["health"]) == ("2 × MI300X 192Gi", "healthy")
    assert status["isolationLevels"] == {"memory": "Cooperative", "compute": "None"}
    assert [(gpu["wholeOnly"], gpu["resource"]) for gpu in status["gpus"]] == [(True, "amd.com/gpu")] * 2
    available = {path["path"]: path["available"] for path in status["capabilities"]["paths"]}
    assert available == {
        "RuntimeClass": False,
        "MIG": False,
        "MemoryLimit": False,
        "DevicePlugin": False,
        "DeviceClaim": False,
        "MPS": False,
        "ExtendedResource": True,
    }
    assert GPUNodeStatus.model_validate(status).gpus[0].whole_only


def test_a_device_whose_memory_is_not_known_has_no_size_in_the_table() -> None:
    assert published(FakeNode("habana.ai/gaudi", 8).source())["summary"] == "8 × Gaudi"


def test_a_device_that_is_not_offered_any_more_stays_listed_and_is_not_handed_out_until_it_is_back() -> None:
    node = FakeNode("amd.com/gpu", 2)
    source = node.source()
    for allocatable, capacity, healthy in (("1", "2", [True, False]), ("0", "0", [False] * 2), ("2", "2", [True] * 2)):
        node.allocatable["amd.com/gpu"], node.capacity["amd.com/gpu"] = allocatable, capacity
        status = published(source)
        assert [gpu["healthy"] for gpu in status["gpus"]] == healthy
        assert {gpu["health"].partition(":")[0] for gpu in status["gpus"] if not gpu["healthy"]} <= {"NotOffered"}


@pytest.mark.parametrize(
    ("offered", "says"),
    [
        (
            {},
            "Node n1 offers none of amd.com/gpu, google.com/tpu, habana.ai/gaudi: does their device plugin run there?",
        ),
        ({"amd.com/gpu": "many"}, "Node n1 offers none of"),
        ({"amd.com/gpu": "1", "google.com/tpu": "4"}, "offers amd.com/gpu and google.com/tpu: an agent publishes"),
    ],
    ids=str,
)
def test_an_agent_begins_only_where_one_kind_is_offered(offered: dict[str, str], says: str) -> None:
    with pytest.raises(GpuSourceError, match=says):
        ExtendedResourceSource("n1", RESOURCES, lambda: {"metadata": {}, "status": {"capacity": offered}})


def test_what_the_kubelet_does_not_tell_is_not_pretended() -> None:
    source = FakeNode("amd.com/gpu", 1).source()
    (sample,) = source.samples()
    assert (sample.used_mib, sample.utilization_percent, sample.processes) == (None, None, ())
    assert source.wait_for_xid(0) is None
    assert not source.can_read_limits()
    assert source.memory_limit(AskedLimit("pod", sample.uuid, "/")) is None
    assert source.reset(sample.uuid) == "devices of amd.com/gpu are reset by their maker's tools"


def test_labels_are_read_as_the_makers_write_them() -> None:
    products = ("AMD_Instinct_MI300X_OAM", "AMD_Instinct_MI210", "AMD_Radeon_PRO_W7900")
    assert [class_in(product) for product in products] == ["MI300X", "MI210", "AMD_Radeon_PRO_W7900"]
    assert [memory_in(label) for label in ("64G", "512M", "64GiB", "", "much")] == [65_536, 512, 65_536, 0, 0]
