"""The published pool follows the GPUs, and what a cluster does not keep of it is noticed."""

from __future__ import annotations

import pytest

from cotenant_agent.dra.resource_slices import GpuDevice
from cotenant_agent.dra.slice_publisher import FEATURE_OFF_RETRY_S, RETRY_S, SlicePublisher
from tests.agent.dra.gpus import NODE, A, B, FakeResourceApi

BOTH = (GpuDevice(gpu=A), GpuDevice(gpu=B))
SICK = (GpuDevice(gpu=A, unhealthy="XID79: lost"), GpuDevice(gpu=B))


def generation(api: FakeResourceApi) -> int:
    (only,) = api.slices.values()
    return int(only["spec"]["pool"]["generation"])


def test_a_pool_is_written_once_and_again_when_a_gpu_changes() -> None:
    api = FakeResourceApi()
    publisher = SlicePublisher(api)
    for now, offered in enumerate((BOTH, BOTH, SICK, SICK)):
        publisher.turn(NODE, offered, now)
    assert (api.writes, generation(api), publisher.reason) == (2, 2, "")
    assert [bool(one.get("taints")) for one in api.devices().values()] == [True, False]


def test_a_pool_that_the_kubelet_removed_comes_back() -> None:
    api = FakeResourceApi()
    publisher = SlicePublisher(api)
    publisher.turn(NODE, BOTH, 0)
    api.slices.clear()
    publisher.turn(NODE, BOTH, 1)
    assert len(api.devices()) == 2


def test_an_api_server_that_is_away_is_asked_again_after_a_while() -> None:
    api = FakeResourceApi()
    publisher, api.down = SlicePublisher(api), True
    publisher.turn(NODE, BOTH, 0)
    assert publisher.reason == "ResourceSlices cannot be written: HTTP 503 Service Unavailable"
    api.down = False
    publisher.turn(NODE, BOTH, RETRY_S - 1)
    assert not api.slices
    publisher.turn(NODE, BOTH, RETRY_S)
    assert (len(api.devices()), publisher.reason) == (2, "")


def test_a_cluster_without_the_api_is_named() -> None:
    api = FakeResourceApi()
    api.served = False
    publisher = SlicePublisher(api)
    publisher.turn(NODE, BOTH, 0)
    assert publisher.reason == "the cluster does not serve resource.k8s.io/v1, which Kubernetes has from 1.34 on"


def test_without_consumable_capacity_nothing_is_offered() -> None:
    """Else a claim of one GiB would be given a whole GPU, which the ledger shares out."""
    api = FakeResourceApi(drops=("allowMultipleAllocations",))
    publisher = SlicePublisher(api)
    publisher.turn(NODE, BOTH, 0)
    publisher.turn(NODE, BOTH, FEATURE_OFF_RETRY_S - 1)
    assert (api.slices, api.writes) == ({}, 1)
    assert publisher.reason.startswith("DRAConsumableCapacity is off")
    api.drops = ()
    publisher.turn(NODE, BOTH, FEATURE_OFF_RETRY_S)
    assert (len(api.devices()), publisher.reason) == (2, "")


@pytest.mark.parametrize("ill", [SICK[0], GpuDevice(gpu=A, held=True)])
def test_without_taints_what_must_not_be_handed_out_is_left_out(ill: GpuDevice) -> None:
    api = FakeResourceApi(drops=("taints",))
    publisher = SlicePublisher(api)
    for now in range(3):
        publisher.turn(NODE, (ill, BOTH[1]), now)
    assert list(api.devices()) == ["gpu-b"]
    publisher.turn(NODE, BOTH, 3)
    assert list(api.devices()) == ["gpu-a", "gpu-b"]
