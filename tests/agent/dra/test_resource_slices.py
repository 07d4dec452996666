"""A node's GPUs as ResourceSlices. Pure."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from cotenant_agent.dra.resource_slices import DEVICES_MAX, GpuDevice, device, same_devices, slice_name, slices
from tests.agent.dra.gpus import NODE, A, B


def pool(*offered: GpuDevice, generation: int = 1) -> list[dict[str, Any]]:
    return slices(NODE, offered, generation)


def test_a_gpu_is_a_device_that_many_claims_share() -> None:
    assert device(GpuDevice(gpu=B)) == {
        "name": "gpu-b",
        "allowMultipleAllocations": True,
        "attributes": {
            "uuid": {"string": "GPU-B"},
            "class": {"string": "H100"},
            "index": {"int": 1},
            "nvlinkDomain": {"string": "GPU-A"},
            "productName": {"string": "H100 80GB"},
        },
        "capacity": {
            "memory": {
                "value": "81920Mi",
                "requestPolicy": {
                    "default": "81920Mi",
                    "validRange": {"min": "1Mi", "max": "81920Mi", "step": "1Mi"},
                },
            },
            "compute": {
                "value": "1000",
                "requestPolicy": {"default": "1000", "validRange": {"min": "1", "max": "1000", "step": "1"}},
            },
        },
    }


@pytest.mark.parametrize(
    ("offered", "taints"),
    [
        (GpuDevice(gpu=A, unhealthy="XID63: a row was remapped"), [("cotenant.dev/unhealthy", "XID63", "NoSchedule")]),
        (GpuDevice(gpu=A, unhealthy="…"), [("cotenant.dev/unhealthy", "Unknown", "NoSchedule")]),
        (GpuDevice(gpu=A, held=True), [("cotenant.dev/held-without-claim", "", "NoSchedule")]),
        (
            GpuDevice(gpu=A, unhealthy="XID79: fell off the bus", drains=True),
            [("cotenant.dev/unhealthy", "XID79", "NoSchedule"), ("cotenant.dev/drain", "", "NoExecute")],
        ),
    ],
)
def test_what_is_not_to_be_handed_out_stays_with_a_taint_and_one_that_drains_ends_who_is_on_it(
    offered: GpuDevice, taints: list[tuple[str, str, str]]
) -> None:
    found = device(offered)["taints"]
    assert [(one["key"], one.get("value", ""), one["effect"]) for one in found] == taints


def test_the_pool_is_the_nodes_and_its_slices_are_one_generation() -> None:
    many = [GpuDevice(gpu=replace(A, uuid=f"GPU-{index}", index=index)) for index in range(DEVICES_MAX + 1)]
    first, second = pool(*many, generation=7)
    assert [part["spec"]["pool"] for part in (first, second)] == [
        {"name": "n1", "generation": 7, "resourceSliceCount": 2}
    ] * 2
    assert [len(part["spec"]["devices"]) for part in (first, second)] == [DEVICES_MAX, 1]
    assert first["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    assert first["metadata"]["name"] != second["metadata"]["name"]


def test_a_node_without_gpus_has_an_empty_pool_and_a_partitioned_gpu_is_in_none() -> None:
    (only,) = pool(GpuDevice(gpu=replace(A, mig=True)))
    assert only["spec"]["devices"] == []


def test_a_mig_instance_is_a_device_of_its_own_size() -> None:
    instance = replace(A, uuid="MIG-A", memory_mib=10_240, parent="GPU-A", profile="1g.10gb")
    made = device(GpuDevice(gpu=instance))
    assert (made["name"], made["capacity"]["memory"]["value"]) == ("mig-a", "10240Mi")
    assert (made["attributes"]["profile"], made["attributes"]["parentUUID"]) == (
        {"string": "1g.10gb"},
        {"string": "GPU-A"},
    )


def test_the_longest_node_name_gives_a_name() -> None:
    assert len(slice_name("n" * 253, 12)) <= 253


def test_what_the_api_server_fills_in_or_writes_its_own_way_is_no_difference() -> None:
    ours = pool(GpuDevice(gpu=A, unhealthy="X: y"))
    theirs = copy.deepcopy(pool(GpuDevice(gpu=A, unhealthy="X: y"), generation=4))
    theirs[0]["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z"
    theirs[0]["spec"]["devices"][0]["capacity"]["memory"]["value"] = "80Gi"
    theirs[0]["spec"]["devices"][0]["capacity"]["compute"]["value"] = "1k"
    assert same_devices(ours, theirs)


@pytest.mark.parametrize(
    "other",
    [
        GpuDevice(gpu=B),
        GpuDevice(gpu=replace(A, memory_mib=81_919)),
        GpuDevice(gpu=A, unhealthy="X: y"),
        GpuDevice(gpu=A, held=True),
        GpuDevice(gpu=replace(A, gpu_class="H200")),
    ],
)
def test_every_change_of_a_gpu_is_a_difference(other: GpuDevice) -> None:
    before = pool(GpuDevice(gpu=A))
    assert same_devices(before, before)
    assert not same_devices(before, pool(other))
