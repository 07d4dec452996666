"""GPUs by Dynamic Resource Allocation, under the real kube-scheduler and kubelets: offered, held and refused."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.e2e.tenancy import SYSTEM, Document, Tenancy, product, training_job
from tests.live.waiting import timeout

pytestmark = pytest.mark.cluster
CLASS = "gpu.cotenant.dev"
NODE = "node-1"
HOLD = ["python", "-c", "import time; time.sleep(3600)"]


@pytest.fixture(scope="module")
def offered() -> Iterator[Tenancy]:
    """One node of two simulated 80 GiB GPUs, offered by its agent; `guests` is a namespace that is no tenant's."""
    from cotenant_local.cluster import spec

    wanted = spec.uniform(1, gpus=2, gpu_class="H100", gpu_memory="80Gi")
    with product("dra", wanted, "agent.dra.enabled=true") as tenancy:
        tenancy.cluster.kubectl("create", "namespace", "guests")
        tenancy.wait(lambda: devices(tenancy), what="the agent publishes its GPUs")
        yield tenancy


def devices(tenancy: Tenancy) -> list[Document]:
    return [device for one in tenancy.get("resourceslices")["items"] for device in one["spec"]["devices"]]


def claim(name: str, *requests: Document) -> Document:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "guests"},
        "spec": {"devices": {"requests": list(requests)}},
    }


def request(uuid: str = "", memory: str = "", compute: str = "") -> Document:
    exactly: Document = {"deviceClassName": CLASS}
    amounts = {"memory": memory, "compute": compute}
    if any(amounts.values()):
        exactly["capacity"] = {"requests": {name: amount for name, amount in amounts.items() if amount}}
    if uuid:
        exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{CLASS}"].uuid == "{uuid}"'}}]
    return {"name": "gpu", "exactly": exactly}


def guest(name: str, command: str = "env; sleep 3600") -> Document:
    """A pod with the claim of its own name."""
    container = {
        "name": "main",
        "image": "ghcr.io/cotenant/tools",
        "command": ["sh", "-c", command],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "guests"},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        },
    }


def pod(tenancy: Tenancy, name: str) -> Document:
    return tenancy.get("pod", name, "-n", "guests")


def runs(tenancy: Tenancy, name: str) -> Any:
    return tenancy.wait(lambda: pod(tenancy, name)["status"]["phase"] == "Running", what=f"pod {name} runs")


def kill_kubelet(tenancy: Tenancy) -> None:
    """There is one node, and so one kubelet below the cluster's first process."""
    from cotenant_local.controlplane import control_socket
    from cotenant_local.host.procfs import descendants

    below = descendants(control_socket.peer(tenancy.cluster.state.control))
    (kubelet,) = [pid for pid in below if b"--config=/run/cotenant/kubelet.json" in command_line(pid)]
    os.kill(kubelet, signal.SIGKILL)


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def unschedulable(document: Document) -> str:
    conditions = document["status"].get("conditions", [])
    return next((one.get("message", "") for one in conditions if one.get("reason") == "Unschedulable"), "")


def test_every_gpu_is_a_device_whose_memory_and_compute_are_shared(offered: Tenancy) -> None:
    (first, second) = devices(offered)
    gpus = offered.get("gpunode", NODE)["status"]["gpus"]
    assert [one["attributes"]["uuid"]["string"] for one in (first, second)] == [gpu["uuid"] for gpu in gpus]
    assert first["allowMultipleAllocations"] is True
    assert {name: entry["value"] for name, entry in first["capacity"].items()} == {"memory": "80Gi", "compute": "1k"}


def test_a_share_is_held_by_its_pod_and_the_scheduler_refuses_what_is_beyond(offered: Tenancy) -> None:
    """Whatever the pod's environment says, it gets the GPU of its claim, and no claim gets more than a GPU has."""
    uuid = devices(offered)[0]["attributes"]["uuid"]["string"]
    offered.apply(claim("first", request(uuid, "60Gi", "500")), guest("first"))
    runs(offered, "first")
    seen = offered.logs("first", "guests").splitlines()
    assert {f"NVIDIA_VISIBLE_DEVICES={uuid}", f"CUDA_VISIBLE_DEVICES={uuid}"} <= set(seen)
    offered.apply(claim("second", request(uuid, "30Gi", "100")), guest("second"))
    why = offered.wait(lambda: unschedulable(pod(offered, "second")), what="the scheduler refuses the second share")
    assert "cannot allocate all claims" in why
    offered.cluster.kubectl("delete", "pod", "first", "-n", "guests", "--wait")
    runs(offered, "second")
    offered.cluster.kubectl("delete", "pod,resourceclaim", "--all", "-n", "guests", "--wait")


def test_agent_and_kubelet_may_die_while_claims_are_prepared(offered: Tenancy) -> None:
    """The agent is killed, then the kubelet: the pods that start meanwhile get their GPUs, and what ran goes on."""
    first, second = (one["attributes"]["uuid"]["string"] for one in devices(offered))
    offered.apply(claim("early", request(first, "20Gi", "100")), guest("early"))
    runs(offered, "early")
    offered.cluster.kubectl(
        "delete", "pod", "-n", SYSTEM, "-l", "app.kubernetes.io/component=agent", "--force", "--grace-period=0"
    )
    offered.apply(claim("late", request(second, "20Gi")), guest("late"))
    runs(offered, "late")
    assert f"CUDA_VISIBLE_DEVICES={second}" in offered.logs("late", "guests").splitlines()
    kill_kubelet(offered)
    offered.apply(claim("later", request(first, "20Gi", "100")), guest("later"))
    runs(offered, "later")
    assert pod(offered, "early")["status"]["phase"] == "Running"
    assert offered.wait(lambda: len(devices(offered)) == 2, what="the devices are offered still")
    offered.cluster.kubectl("delete", "pod,resourceclaim", "--all", "-n", "guests", "--wait")


def held_devices(document: Document) -> list[str]:
    allocation = document.get("status", {}).get("allocation", {})
    return [result["device"] for result in allocation.get("devices", {}).get("results", [])]


def count_claims(tenancy: Tenancy, how: str) -> None:
    """Turn the ledger's counting of claims of others on or off."""
    deployment = ("deployment/cotenant-operator", "-n", SYSTEM)
    tenancy.cluster.kubectl("set", "env", *deployment, f"COTENANT_DEVICE_CLAIMS={how}")
    tenancy.cluster.kubectl("rollout", "status", *deployment, timeout(180))


def test_a_job_holds_its_gpu_by_a_claim_that_pins_it(offered: Tenancy) -> None:
    offered.apply(training_job("pinned", gpu={"count": 1}, runtime={"command": HOLD}))
    offered.wait_phase("pinned", "Running")
    (only,) = offered.get("resourceclaims", "-n", "team-a")["items"]
    (worker,) = offered.get("pods", "-n", "team-a")["items"]
    assert worker["spec"]["resourceClaims"] == [{"name": "gpus", "resourceClaimName": worker["metadata"]["name"]}]
    (device,) = held_devices(only)
    assert device.upper() in json.dumps(offered.job("pinned")["status"]["placement"]).upper()
    offered.apply(claim("too-late", request(device.replace("gpu-", "GPU-", 1), "1Gi", "1")), guest("too-late"))
    offered.wait(lambda: unschedulable(pod(offered, "too-late")), what="the job's GPU is nobody else's")
    offered.cluster.kubectl("delete", "pod,resourceclaim", "--all", "-n", "guests", "--wait")
    offered.delete_all()


def test_the_next_decision_knows_of_a_claim_of_others(offered: Tenancy) -> None:
    first = devices(offered)[0]["attributes"]["uuid"]["string"]
    offered.apply(claim("guest", request(first, "10Gi", "100")), guest("guest"))
    runs(offered, "guest")
    offered.apply(
        training_job("both", gpu={"count": 2}, runtime={"command": HOLD}),
        training_job("other", gpu={"count": 1}, runtime={"command": HOLD}),
    )
    offered.wait_phase("other", "Running")
    assert first not in json.dumps(offered.job("other")["status"]["placement"])
    assert offered.job("both")["status"]["phase"] == "Pending"
    offered.cluster.kubectl("delete", "pod,resourceclaim", "--all", "-n", "guests", "--wait")
    offered.delete_all()


def test_where_the_ledger_is_wrong_the_scheduler_refuses_and_the_gang_is_placed_anew(offered: Tenancy) -> None:
    count_claims(offered, "ignored")
    wanted = [one["attributes"]["uuid"]["string"] for one in devices(offered)]
    for number, uuid in enumerate(wanted):
        offered.apply(claim(f"guest-{number}", request(uuid)), guest(f"guest-{number}"))
        runs(offered, f"guest-{number}")
    offered.apply(training_job("misled", gpu={"count": 1}, runtime={"command": HOLD}))
    offered.wait_phase("misled", "Starting")
    why = offered.wait(
        lambda: [why for one in offered.get("pods", "-n", "team-a")["items"] if (why := unschedulable(one))],
        what="the kube-scheduler refuses what the ledger gave away",
    )
    assert "cannot allocate all claims" in why[0]
    count_claims(offered, "counted")
    offered.wait_phase("misled", "Pending")
    offered.cluster.kubectl("delete", "pod,resourceclaim", "guest-0", "-n", "guests", "--wait")
    offered.wait_phase("misled", "Running")
    offered.delete_all()


def test_a_sick_gpu_takes_nothing_new(offered: Tenancy) -> None:
    """The last test: a GPU that was lost stays cordoned until its node has rebooted."""
    gpus = {"class": "H100", "memory": "80Gi", "count": 2, "unhealthy": [0]}
    offered.cluster.kubectl("annotate", "node", NODE, "--overwrite", f"cotenant.dev/simulated-gpus={json.dumps(gpus)}")
    offered.wait(lambda: devices(offered)[0].get("taints"), what="the sick GPU is tainted")
    (sick, well) = devices(offered)
    assert [(taint["key"], taint["effect"]) for taint in sick["taints"]] == [
        ("cotenant.dev/unhealthy", "NoSchedule"),
        ("cotenant.dev/drain", "NoExecute"),  # it computes no longer, so who is on it has to leave
    ]
    assert "taints" not in well
    offered.apply(claim("patient", request(sick["attributes"]["uuid"]["string"], "1Gi")), guest("patient"))
    offered.wait(lambda: unschedulable(pod(offered, "patient")), what="nothing new comes to the sick GPU")
    offered.cluster.kubectl("delete", "pod,resourceclaim", "--all", "-n", "guests", "--wait")
