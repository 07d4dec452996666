"""The product on this machine's own GPU: a cluster of one node, whose agent reads the driver and simulates nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.live.e2e.tenancy import Tenancy, product

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

REAL_GPUS: Final = ("agent.simulate=false", r"agent.nodeSelector.kubernetes\.io/os=linux")
RUNTIME_CLASS: Final = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}


@pytest.fixture(scope="session")
def on_a_gpu() -> Iterator[Tenancy]:
    """The chart on a node that has the GPUs of this machine, tenants team-a and team-b. Needs root."""
    from cotenant_local.cluster import spec

    wanted = spec.uniform(1, gpus=0, gpu_class="", gpu_memory="")
    with product("gpu", wanted, *REAL_GPUS, prepare=with_class) as tenancy:
        yield tenancy


@pytest.fixture
def tenancy(on_a_gpu: Tenancy) -> Iterator[Tenancy]:
    on_a_gpu.delete_all()
    yield on_a_gpu
    on_a_gpu.delete_all()


def with_class(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(RUNTIME_CLASS))
