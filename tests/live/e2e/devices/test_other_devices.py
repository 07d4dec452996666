"""A cluster of two makers in one queue tree, under the real kube-scheduler and kubelets: a node of GPUs of CUDA, and
one that offers `amd.com/gpu` as a device plugin would have it do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.e2e.tenancy import Document, Tenancy, product, training_job

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster
CUDA, AMD = "node-1", "node-2"
RESOURCE = "amd.com/gpu"
DEVICES = 4
SHOW = [
    "python",
    "-c",
    "import os; print({name: value for name, value in os.environ.items() if name.endswith('_VISIBLE_DEVICES')})",
]
HOLD = ["python", "-c", "import time; time.sleep(3600)"]


def offer(cluster: Cluster) -> None:
    """What a device plugin makes the kubelet write: capacity and allocatable; and the administrator's class."""
    amounts = [
        {"op": "add", "path": f"/status/{part}/amd.com~1gpu", "value": str(DEVICES)}
        for part in ("capacity", "allocatable")
    ]
    cluster.kubectl("patch", "node", AMD, "--subresource=status", "--type=json", "-p", json.dumps(amounts))
    cluster.kubectl("label", "node", AMD, "--overwrite", "cotenant.dev/gpu-class=MI300X")


@pytest.fixture(scope="module")
def mixed() -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    hostname = r"nodeSelector.kubernetes\.io/hostname"
    values = [f"agent.{hostname}={CUDA}", f"agent.otherDevices.{hostname}={AMD}", "agent.otherDevices.enabled=true"]
    wanted = spec.uniform(2, gpus=2, gpu_class="H100", gpu_memory="80Gi")
    with product("devices", wanted, *values, prepare=offer) as tenancy:
        yield tenancy


@pytest.fixture(autouse=True)
def clean(mixed: Tenancy) -> Iterator[None]:
    yield
    mixed.delete_all()


def devices(number: int, **more: Any) -> dict[str, Any]:
    return {"gpu": {"count": number, "classes": ["MI300X"]}, **more}


def pending(tenancy: Tenancy, name: str, reason: str) -> str:
    def told() -> str:
        waits = tenancy.job(name).get("status", {}).get("pending") or {}
        return str(waits.get("message", "")) if waits.get("reason") == reason else ""

    return str(tenancy.wait(told, what=f"{name} waits: {reason}"))


def test_the_devices_are_published_with_what_their_isolation_means(mixed: Tenancy) -> None:
    status = mixed.get("gpunode", AMD)["status"]
    assert [(gpu["class"], gpu["resource"], gpu["wholeOnly"]) for gpu in status["gpus"]] == [
        ("MI300X", RESOURCE, True)
    ] * DEVICES
    assert (status["isolation"], status["summary"]) == ("Cooperative", "4 × MI300X")
    assert mixed.get("gpunode", CUDA)["status"]["summary"] == "2 × H100 80Gi"


def test_a_job_gets_whole_devices_of_the_kubelet_and_the_next_one_waits_for_them(mixed: Tenancy) -> None:
    mixed.apply(training_job("show", command=SHOW, **devices(2)))
    shown = mixed.wait_phase("show", "Succeeded", "Failed")
    assert (shown["status"]["phase"], shown["status"]["isolation"]) == ("Succeeded", "Cooperative")
    assert "{'ROCR_VISIBLE_DEVICES': '0,1'}" in mixed.logs("show-1-0")

    mixed.apply(training_job("first", command=HOLD, **devices(3)))
    mixed.wait_phase("first", "Running")
    pod = mixed.get("pod", "first-1-0", "-n", "team-a")
    amounts = pod["spec"]["containers"][0]["resources"]
    assert (amounts["requests"][RESOURCE], amounts["limits"][RESOURCE], pod["spec"]["nodeName"]) == ("3", "3", AMD)
    assert not [one for one in pod["spec"]["containers"][0]["env"] if one["name"].startswith(("CUDA_", "NVIDIA_"))]

    mixed.apply(training_job("second", command=SHOW, **devices(2)))
    assert "1 of 4 GPUs are free" in pending(mixed, "second", "WaitingForGPUs")
    mixed.cluster.kubectl("delete", "trainingjob", "first", "-n", "team-a")
    mixed.wait_phase("second", "Succeeded")


def test_a_pod_of_others_is_counted_before_anything_is_decided(mixed: Tenancy) -> None:
    guest: Document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "notebook", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "ghcr.io/cotenant/tools",
                    "command": ["sleep", "3600"],
                    "resources": {"limits": {RESOURCE: "3"}},
                }
            ],
        },
    }
    mixed.apply(guest)
    mixed.wait(
        lambda: mixed.get("pod", "notebook", "-n", "default")["status"]["phase"] == "Running", what="the guest runs"
    )
    mixed.apply(training_job("beside", command=SHOW, **devices(1)), training_job("large", command=SHOW, **devices(2)))
    assert "of 4 GPUs are free" in pending(mixed, "large", "WaitingForGPUs")
    mixed.wait_phase("beside", "Succeeded")
    mixed.cluster.kubectl("delete", "pod", "notebook", "-n", "default", "--wait")
    mixed.wait_phase("large", "Succeeded")


def test_a_share_of_them_is_refused_and_who_names_no_class_gets_gpus_of_cuda(mixed: Tenancy) -> None:
    mixed.apply(training_job("share", gpu={"memoryFraction": "0.4", "classes": ["MI300X"]}))
    mixed.apply(training_job("plain", gpu={"count": 1}))
    assert "class MI300X is not shared" in pending(mixed, "share", "ClassNotShared")
    mixed.wait_phase("plain", "Succeeded")
    assert mixed.get("pod", "plain-1-0", "-n", "team-a")["spec"]["nodeName"] == CUDA


def test_a_tenants_own_pod_may_not_take_them(mixed: Tenancy) -> None:
    container = {"name": "main", "image": "ghcr.io/cotenant/tools", "resources": {"limits": {RESOURCE: "1"}}}
    metadata = {"name": "own", "namespace": "team-a"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    mixed.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod), expect=1)
