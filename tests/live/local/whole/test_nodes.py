"""Nodes: their size and kind as asked for, and what happens when one stops, freezes, or is cut off."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.waiting import timeout, wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster
NODE = "node-2"


def ready(cluster: "Cluster", name: str) -> str:
    conditions = json.loads(cluster.kubectl("get", "node", name, "-o", "json"))["status"]["conditions"]
    (status,) = [condition["status"] for condition in conditions if condition["type"] == "Ready"]
    return str(status)


@pytest.fixture
def pod_on_node(local_cluster: "Cluster") -> Iterator[str]:
    """A pod that is bound to the node that fails, restarts always, and tolerates everything."""
    name = "on-the-node"
    spec: dict[str, Any] = {
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "ghcr.io/cotenant/tools", "command": ["sleep", "inf"]}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    local_cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    local_cluster.kubectl("wait", "--for=condition=Ready", f"pod/{name}", timeout(180))
    yield name
    local_cluster.node("restore", NODE)
    local_cluster.kubectl("delete", "pod", name, "--wait")


@pytest.mark.parametrize("fault", ["stop", "freeze", "isolate"])
def test_a_node_that_fails_is_noticed_and_comes_back(local_cluster: "Cluster", pod_on_node: str, fault: str) -> None:
    local_cluster.node(fault, NODE)
    wait_until(lambda: ready(local_cluster, NODE) == "Unknown", f"{NODE} to be lost after {fault}")
    assert ready(local_cluster, "node-1") == "True"
    local_cluster.node("restore", NODE)
    wait_until(lambda: ready(local_cluster, NODE) == "True", f"{NODE} to be ready again after {fault}")
    local_cluster.kubectl("wait", "--for=condition=Ready", f"pod/{pod_on_node}", timeout(180))
    restarts = local_cluster.kubectl(
        "get", "pod", pod_on_node, "-o", "jsonpath={.status.containerStatuses[0].restartCount}"
    )
    assert restarts == {"stop": "1", "freeze": "0", "isolate": "0"}[fault]


def test_a_fault_of_a_node_that_does_not_exist_is_refused(local_cluster: "Cluster") -> None:
    from cotenant_local.host.errors import LocalError

    with pytest.raises(LocalError, match="there is no node nowhere; this cluster has node-1, node-2"):
        local_cluster.node("stop", "nowhere")


def test_the_simulated_inventory_is_on_the_node_before_its_kubelet(local_cluster: "Cluster") -> None:
    node = json.loads(local_cluster.kubectl("get", "node", NODE, "-o", "json"))["metadata"]
    inventory = json.loads(node["annotations"]["cotenant.dev/simulated-gpus"])
    assert (inventory, node["labels"]["cotenant.dev/gpu-class"]) == (
        {"class": "H100", "memory": "80Gi", "count": 4},
        "H100",
    )
