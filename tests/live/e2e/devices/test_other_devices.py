"""A cluster of four makers in one queue tree, under the real kube-scheduler and kubelets: a node of GPUs of CUDA, and
one each that offers AMD's GPUs, Google's TPUs and Intel's Gaudis as their device plugins would have it do.
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
MAKERS = {
    AMD: (RESOURCE, "MI300X"),
    "node-3": ("google.com/tpu", "tpu-v5-lite-podslice"),
    "node-4": ("habana.ai/gaudi", "Gaudi3"),
}
"""Node → what its device plugin offers, and the class that its devices have."""
DEVICES = 4
SHOW = [
    "python",
    "-c",
    "import os; print({name: value for name, value in os.environ.items() if name.endswith('_VISIBLE_DEVICES')})",
]
HOLD = ["python", "-c", "import time; time.sleep(3600)"]


def offer(cluster: Cluster) -> None:
    """What a device plugin makes the kubelet write: capacity and allocatable; and the administrator's class."""
    for node, (resource, gpu_class) in MAKERS.items():
        amounts = [
            {"op": "add", "path": f"/status/{part}/{resource.replace('/', '~1')}", "value": str(DEVICES)}
            for part in ("capacity", "allocatable")
        ]
        cluster.kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(amounts))
        labels = ("example.com/maker=other", f"cotenant.dev/gpu-class={gpu_class}")
        cluster.kubectl("label", "node", node, "--overwrite", *labels)


@pytest.fixture(scope="module")
def mixed() -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    hostname, maker = r"nodeSelector.kubernetes\.io/hostname", r"nodeSelector.example\.com/maker"
    values = [f"agent.{hostname}={CUDA}", f"agent.otherDevices.{maker}=other", "agent.otherDevices.enabled=true"]
    wanted = spec.uniform(1 + len(MAKERS), gpus=2, gpu_class="H100", gpu_memory="80Gi")
    with product("devices", wanted, *values, prepare=offer) as tenancy:
        yield tenancy


@pytest.fixture(autouse=True)
def clean(mixed: Tenancy) -> Iterator[None]:
    yield
    mixed.delete_all()


def devices(number: int, gpu_class: str = "MI300X", **more: Any) -> dict[str, Any]:
    return {"gpu": {"count": number, "classes": [gpu_class]}, **more}


def pending(tenancy: Tenancy, name: str, reason: str) -> str:
    def told() -> str:
        waits = tenancy.job(name).get("status", {}).get("pending") or {}
        return str(waits.get("message", "")) if waits.get("reason") == reason else ""

    return str(tenancy.wait(told, what=f"{name} waits: {reason}"))


def test_the_devices_are_published_with_what_their_isolation_means(mixed: Tenancy) -> None:
    for node, (resource, gpu_class) in MAKERS.items():
        status = mixed.get("gpunode", node)["status"]
        assert [(gpu["class"], gpu["resource"], gpu["wholeOnly"]) for gpu in status["gpus"]] == [
            (gpu_class, resource, True)
        ] * DEVICES
        assert (status["isolation"], status["summary"]) == ("Cooperative", f"4 × {gpu_class}")
    assert mixed.get("gpunode", CUDA)["status"]["summary"] == "2 × H100 80Gi"


@pytest.mark.parametrize("node", [node for node in MAKERS if node != AMD], ids=lambda node: MAKERS[node][1])
def test_a_gang_shares_the_devices_of_a_maker_without_cuda(mixed: Tenancy, node: str) -> None:
    """Its ranks see the devices of their pod and choose by LOCAL_RANK."""
    resource, gpu_class = MAKERS[node]
    shown = [*SHOW[:2], SHOW[2] + "; print('rank', os.environ['LOCAL_RANK'], 'of', os.environ['WORLD_SIZE'])"]
    mixed.apply(training_job("gang", command=shown, workers=2, **devices(2, gpu_class)))
    ended = mixed.wait_phase("gang", "Succeeded", "Failed")["status"]
    assert (ended["phase"], ended["isolation"]) == ("Succeeded", "Cooperative")
    pod = mixed.get("pod", "gang-1-0", "-n", "team-a")
    requested = pod["spec"]["containers"][0]["resources"]["requests"][resource]
    assert (requested, pod["spec"]["nodeName"]) == (str(DEVICES), node)
    log = mixed.logs("gang-1-0")
    assert ("rank 0 of 2" in log, "rank 1 of 2" in log, "CUDA_VISIBLE_DEVICES" in log) == (True, True, False)


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
