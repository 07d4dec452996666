"""A device plugin in a pod registers with one node's kubelet; a pod that asks gets what Allocate said."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cotenant_local.programs import build
from tests.live.waiting import timeout

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster
NODE = "node-1"
PLUGINS = "/var/lib/kubelet/device-plugins"


def pod(name: str, container: dict[str, Any], **spec: Any) -> str:
    whole = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", **container}],
    }
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**whole, **spec}})


def consumer(name: str, gadgets: int) -> str:
    amount = {"example.com/gadget": str(gadgets)}
    command = ["sh", "-c", "echo $GADGETS"]
    return pod(name, {"image": "ghcr.io/cotenant/tools", "command": command, "resources": {"limits": amount}})


@pytest.fixture(scope="module")
def plugin(local_cluster: "Cluster") -> Iterator["Cluster"]:
    script = Path(__file__).with_name("gadgets.py")
    local_cluster.kubectl("create", "configmap", "gadgets", f"--from-file={script}")
    paths = {"plugins": PLUGINS, "stubs": str(build.stubs_path())}
    volumes: list[dict[str, Any]] = [{"name": name, "hostPath": {"path": path}} for name, path in paths.items()]
    container = {
        "image": "ghcr.io/cotenant/operator",
        "command": ["python", "/script/gadgets.py"],
        "env": [{"name": "PYTHONPATH", "value": "/stubs"}],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [
            {"name": "plugins", "mountPath": PLUGINS},
            {"name": "stubs", "mountPath": "/stubs", "readOnly": True},
            {"name": "script", "mountPath": "/script"},
        ],
    }
    volumes.append({"name": "script", "configMap": {"name": "gadgets"}})
    where = {"kubernetes.io/hostname": NODE}
    local_cluster.kubectl("apply", "-f", "-", stdin=pod("gadgets", container, volumes=volumes, nodeSelector=where))
    wait = "--for=jsonpath={.status.allocatable.example\\.com/gadget}=2"
    local_cluster.kubectl("wait", wait, f"node/{NODE}", timeout(240))
    yield local_cluster
    local_cluster.kubectl("delete", "pod", "gadgets", "wants-one", "wants-three", "--ignore-not-found", "--wait")
    local_cluster.kubectl("delete", "configmap", "gadgets")


def test_a_pod_gets_what_the_plugin_allocated_on_the_plugins_node(plugin: "Cluster") -> None:
    plugin.kubectl("apply", "-f", "-", stdin=consumer("wants-one", 1))
    plugin.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/wants-one", timeout(240))
    assert plugin.kubectl("logs", "wants-one") in {"gadget-0\n", "gadget-1\n"}
    assert plugin.kubectl("get", "pod", "wants-one", "-o", "jsonpath={.spec.nodeName}") == NODE


def test_more_devices_than_there_are_stay_pending_with_the_schedulers_words(plugin: "Cluster") -> None:
    plugin.kubectl("apply", "-f", "-", stdin=consumer("wants-three", 3))
    plugin.kubectl(
        "wait",
        "--for=jsonpath={.status.conditions[0].reason}=Unschedulable",
        "pod/wants-three",
        timeout(240),
    )
    message = plugin.kubectl("get", "pod", "wants-three", "-o", "jsonpath={.status.conditions[0].message}")
    assert "Insufficient example.com/gadget" in message
