"""Other people's platforms, played on the local cluster: an ordinary job trains on each (`make test-platforms`).

A test changes what its platform is about (a mesh, a quota, a closed port), applies the job of `training.py` in a
namespace of its own, and takes the change back. All share one cluster of two nodes, with the chart's default values but
for simulated GPUs. A platform that needs other nodes or values makes a cluster of its own with `product`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.live.e2e.tenancy import Tenancy, product
from tests.live.waiting import timeout

NODES, GPUS = 2, 2


@pytest.fixture(scope="module")
def platform() -> Iterator[Tenancy]:
    """Two nodes of two simulated GPUs each, and the chart. It ends with its file: Linux allows a user few watches."""
    from cotenant_local.cluster import spec

    with product("platforms", spec.uniform(NODES, gpus=GPUS, gpu_class="H100", gpu_memory="80Gi")) as tenancy:
        yield tenancy


@pytest.fixture
def team(platform: Tenancy) -> Iterator[str]:
    """A tenant's namespace, with a queue that may use all GPUs."""
    name = f"team-{uuid.uuid4().hex[:6]}"
    labels = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    queue = {"namespaces": [name], "quotas": [{"guaranteed": 0, "limit": NODES * GPUS}]}
    platform.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
        {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": queue},
    )
    yield name
    platform.cluster.kubectl("delete", "trainingjobs", "--all", "-n", name, "--wait=true", timeout(60))
    platform.cluster.kubectl("delete", "queue", name)
    platform.cluster.kubectl("delete", "namespace", name, "--wait=false")
