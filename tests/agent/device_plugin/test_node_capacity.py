"""The kubelet's word on what it counts, as the Node has it. Pure."""

from __future__ import annotations

import pytest

from cotenant_agent.device_plugin.node_capacity import disagreement
from cotenant_agent.device_plugin.offered_shares import OfferedShares
from tests.agent.dra.gpus import A, B

OFFERED = [
    OfferedShares(resource=f"gpu.cotenant.dev/memory.{gpu.uuid}", gpu=gpu, dimension="memory", healthy=0)
    for gpu in (A, B)
]
SHOWN = {"cpu": "8", "gpu.cotenant.dev/memory.GPU-A": "1k", "gpu.cotenant.dev/memory.GPU-B": "1000"}
NVIDIA_OFF = "turn it off on this node by the label nvidia.com/gpu.deploy.device-plugin=false"


@pytest.mark.parametrize(
    ("capacity", "says"),
    [
        pytest.param(SHOWN, "", id="all, however healthy"),
        pytest.param(SHOWN | {"nvidia.com/gpu": "0"}, "", id="NVIDIA's plugin was here once"),
        pytest.param(SHOWN | {"nvidia.com/hostdev": "8"}, "", id="network devices of NVIDIA's Network Operator"),
        pytest.param(SHOWN | {"nvidia.com/gpu.memory": "80"}, "", id="a figure that somebody wrote beside it"),
        pytest.param(
            {}, "the Node shows no gpu.cotenant.dev/memory.GPU-A, 1000 were offered to the kubelet", id="nothing"
        ),
        pytest.param(
            SHOWN | {"gpu.cotenant.dev/memory.GPU-B": "0"},
            "the Node shows 0 gpu.cotenant.dev/memory.GPU-B, 1000 were offered to the kubelet",
            id="the kubelet has lost the plugin",
        ),
        pytest.param(
            SHOWN | {"gpu.cotenant.dev/memory.GPU-B": "2k"},
            "the Node shows 2k gpu.cotenant.dev/memory.GPU-B, 1000 were offered to the kubelet",
            id="more than was offered: somebody else has that name too",
        ),
        pytest.param(
            SHOWN | {"gpu.cotenant.dev/memory.GPU-A": "many"},
            "the Node shows many gpu.cotenant.dev/memory.GPU-A, 1000 were offered to the kubelet",
            id="what cannot be read is nothing",
        ),
        pytest.param(
            SHOWN | {"nvidia.com/gpu": "8"},
            f"NVIDIA's device plugin offers the same GPUs (nvidia.com/gpu): {NVIDIA_OFF}",
            id="NVIDIA's plugin with its usual name",
        ),
        pytest.param(
            SHOWN | {"nvidia.com/gpu.shared": "32", "nvidia.com/mig-1g.10gb": "7"},
            "NVIDIA's device plugin offers the same GPUs (nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb):"
            f" {NVIDIA_OFF}",
            id="NVIDIA's plugin with time slicing and MIG",
        ),
    ],
)
def test_the_path_is_there_when_the_node_shows_what_was_offered(capacity: dict[str, str], says: str) -> None:
    assert disagreement({"status": {"capacity": capacity}}, OFFERED) == says


def test_a_node_without_a_status_shows_nothing() -> None:
    assert "shows no gpu.cotenant.dev/memory.GPU-A" in disagreement({"metadata": {}}, OFFERED)
