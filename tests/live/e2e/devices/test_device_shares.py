"""Shares of GPUs that the real kubelet counts: taken by jobs alone, and refused where the ledger is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.e2e.devices.test_device_claims import HOLD, NODE, kill_kubelet
from tests.live.e2e.tenancy import SYSTEM, Document, Tenancy, as_list, product, training_job

pytestmark = pytest.mark.cluster
PREFIX = "gpu.cotenant.dev/"
EXEMPT = "operations"
"""Whom no policy keeps from taking shares of which the ledger does not know."""


@pytest.fixture(scope="module")
def counted() -> Iterator[Tenancy]:
    """One node of two simulated 80 GiB GPUs, whose shares its kubelet counts."""
    from cotenant_local.cluster import spec

    wanted = spec.uniform(1, gpus=2, gpu_class="H100", gpu_memory="80Gi")
    values = ("agent.devicePlugin.enabled=true", f"admission.exemptUsers[0]={EXEMPT}")
    with product("shares", wanted, *values) as tenancy:
        tenancy.cluster.kubectl("create", "namespace", "guests")
        tenancy.wait(lambda: path(tenancy)["available"], what="the kubelet counts the shares")
        yield tenancy


def path(tenancy: Tenancy) -> Document:
    paths = tenancy.get("gpunode", NODE)["status"]["capabilities"]["paths"]
    return next(one for one in paths if one["path"] == "DevicePlugin")


def shares(tenancy: Tenancy, of: str = "allocatable") -> dict[str, str]:
    found = tenancy.get("node", NODE)["status"][of]
    return {name.removeprefix(PREFIX): amount for name, amount in found.items() if name.startswith(PREFIX)}


def uuids(tenancy: Tenancy) -> list[str]:
    return [gpu["uuid"] for gpu in tenancy.get("gpunode", NODE)["status"]["gpus"]]


def stranger(name: str, uuid: str, amount: str, **spec: Any) -> Document:
    """A pod that the ledger does not know, but whose GPU memory the kubelet counts."""
    held = {f"{PREFIX}memory.{uuid.lower()}": amount}
    container = {
        "name": "main",
        "image": "ghcr.io/cotenant/tools",
        "command": ["sleep", "3600"],
        "resources": {"requests": held, "limits": held},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "guests"},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }


def apply_exempt(tenancy: Tenancy, *documents: Document) -> None:
    who = ("--as", EXEMPT, "--as-group", "system:masters")
    tenancy.cluster.kubectl("apply", *who, "-f", "-", stdin=as_list(documents))


def guest(tenancy: Tenancy, name: str) -> Document:
    found: Document = tenancy.get("pod", name, "-n", "guests")["status"]
    return found


def guest_words(tenancy: Tenancy, field: str) -> set[str]:
    """Phases, or reasons, of all guests."""
    return {one["status"].get(field, "") for one in tenancy.get("pods", "-n", "guests")["items"]}


def worker(tenancy: Tenancy, job: str) -> Document | None:
    pods = tenancy.get("pods", "-n", "team-a", "-l", f"cotenant.dev/job={job}")["items"]
    return pods[0] if pods else None


def without_uncounted(tenancy: Tenancy) -> dict[str, str]:
    """The shares that may be offered if each pod of a job that requests none holds 0.4 of its GPU."""
    amounts = {f"{kind}.{uuid.lower()}": 1000 for uuid in uuids(tenancy) for kind in ("memory", "compute")}
    for pod in tenancy.get("pods", "-n", "team-a")["items"]:
        if any(name.startswith(PREFIX) for name in pod["spec"]["containers"][0]["resources"]["requests"]):
            continue
        job = tenancy.job(pod["metadata"]["labels"]["cotenant.dev/job"])
        uuid = job["status"]["placement"]["nodes"][0]["ranks"][0]["gpus"][0]["uuid"].lower()
        for kind in ("memory", "compute"):
            amounts[f"{kind}.{uuid}"] -= 400
    return {name: "1k" if amount == 1000 else str(amount) for name, amount in amounts.items()}


def test_the_kubelet_counts_every_gpu_by_its_name(counted: Tenancy) -> None:
    names = {f"{kind}.{uuid.lower()}" for uuid in uuids(counted) for kind in ("memory", "compute")}
    assert shares(counted) == dict.fromkeys(names, "1k")


def test_a_job_takes_its_share_and_the_kubelet_refuses_what_is_beyond(counted: Tenancy) -> None:
    """The second pod is bound without the kube-scheduler."""
    counted.apply(training_job("first", runtime={"command": HOLD}))
    counted.wait_phase("first", "Running")
    pod = worker(counted, "first")
    assert pod is not None
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    (held,) = [name for name in requests if name.startswith(f"{PREFIX}memory.")]
    assert requests[held] == "400"
    uuid = held.partition("memory.")[2]
    apply_exempt(
        counted, stranger("beyond", uuid, "601", nodeName=NODE), stranger("within", uuid, "600", nodeName=NODE)
    )
    counted.wait(lambda: guest(counted, "beyond")["phase"] == "Failed", what="the kubelet refuses more than there is")
    assert guest(counted, "beyond")["reason"] == "UnexpectedAdmissionError"
    counted.wait(lambda: guest(counted, "within")["phase"] == "Running", what="what is left is given")
    counted.cluster.kubectl("delete", "pods", "--all", "-n", "guests", "--wait")
    counted.delete_all()


def test_where_the_ledger_is_wrong_the_kubelet_refuses_and_the_gang_is_placed_anew(counted: Tenancy) -> None:
    apply_exempt(counted, *(stranger(f"holder-{uuid[-4:]}", uuid, "1k") for uuid in uuids(counted)))
    counted.wait(lambda: guest_words(counted, "phase") == {"Running"}, what="both GPUs are held")
    counted.apply(training_job("misled", runtime={"command": HOLD}))
    pod = counted.wait(lambda: worker(counted, "misled"), what="the ledger gives away what is held")
    refused = counted.wait(
        lambda: [
            one["message"]
            for one in (worker(counted, "misled") or {}).get("status", {}).get("conditions", ())
            if one.get("reason") == "Unschedulable"
        ],
        what="the kube-scheduler finds no share free",
    )
    assert f"Insufficient {PREFIX}" in refused[0]
    name = pod["metadata"]["name"]
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": "team-a"},
               "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}}  # fmt: skip
    where = f"/api/v1/namespaces/team-a/pods/{name}/binding"
    counted.cluster.kubectl("create", "--raw", where, "-f", "-", stdin=json.dumps(binding))
    job = counted.wait(
        lambda: next((one for one in [counted.job("misled")] if one["status"].get("lastExit")), None),
        what="the operator knows of the refusal",
    )
    said = job["status"]["lastExit"]
    assert said["reason"] == "UnexpectedAdmissionError"
    assert f"the kubelet of node {NODE} refused pod {name}" in said["message"]
    assert f"unavailable for {PREFIX}" in said["message"]
    job = counted.wait_phase("misled", "Pending")
    assert [one["node"] for one in job["status"]["excludedNodes"]] == [NODE]
    assert job["status"].get("faults", 0) == 0
    counted.cluster.kubectl("delete", "pods", "--all", "-n", "guests", "--wait")
    counted.wait_phase("misled", "Running", seconds=300)
    counted.delete_all()


def test_jobs_that_follow_one_another_on_a_gpu_are_never_refused(counted: Tenancy) -> None:
    """If the ledger counts a GPU as free, so do kube-scheduler and kubelet."""
    names = [f"next-{number}" for number in range(8)]
    counted.apply(*(training_job(name, gpu={"count": 1}) for name in names))
    for name in names:
        counted.wait_phase(name, "Succeeded", seconds=300)
    assert {counted.job(name)["status"]["attempts"] for name in names} == {1}
    counted.delete_all()


def test_agent_and_kubelet_may_die_while_shares_are_taken(counted: Tenancy) -> None:
    """What runs goes on, what starts meanwhile gets its share, and all of it is counted afterwards: by the kubelet, or
    held back if the pod was made while the kubelet counted nothing."""
    counted.apply(training_job("early", runtime={"command": HOLD}))
    counted.wait_phase("early", "Running")
    counted.cluster.kubectl(
        "delete", "pod", "-n", SYSTEM, "-l", "app.kubernetes.io/component=agent", "--force", "--grace-period=0"
    )
    counted.apply(training_job("late", runtime={"command": HOLD}))
    counted.wait_phase("late", "Running", seconds=300)
    kill_kubelet(counted)
    counted.apply(training_job("later", runtime={"command": HOLD}))
    counted.wait_phase("later", "Running", seconds=300)
    assert counted.job("early")["status"]["attempts"] == 1
    free = without_uncounted(counted)
    counted.wait(lambda: shares(counted) == free, what="every share is offered again")
    beyond = (stranger(f"beyond-{uuid[-4:]}", uuid, "700", nodeName=NODE) for uuid in uuids(counted))
    apply_exempt(counted, *beyond)
    refused = {"UnexpectedAdmissionError"}
    counted.wait(lambda: guest_words(counted, "reason") == refused, what="the kubelet knows who holds what")
    counted.cluster.kubectl("delete", "pods", "--all", "-n", "guests", "--wait")
    counted.delete_all()


def test_nobody_but_the_operator_takes_shares(counted: Tenancy) -> None:
    """Neither `edit` in a namespace that is no tenant's is enough, nor a controller that makes the pod."""
    counted.cluster.kubectl("create", "rolebinding", "editor", "-n", "guests", "--clusterrole=edit", "--user=anne")
    pod = stranger("mine", uuids(counted)[0], "1")
    said = counted.cluster.kubectl("apply", "--as=anne", "-f", "-", stdin=json.dumps(pod), expect=1)
    assert "shares of gpu.cotenant.dev are what TrainingJobs hold of a GPU" in said
    template = {"metadata": {"labels": {"app": "mine"}}, "spec": pod["spec"] | {"restartPolicy": "Always"}}
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "mine", "namespace": "guests"},
        "spec": {"selector": {"matchLabels": {"app": "mine"}}, "template": template},
    }
    counted.cluster.kubectl("apply", "--as=anne", "-f", "-", stdin=json.dumps(replicas))
    why = counted.wait(
        lambda: counted.get("replicaset", "mine", "-n", "guests")["status"].get("conditions"),
        what="its controller is refused",
    )
    assert "are what TrainingJobs hold of a GPU" in why[0]["message"]
    counted.cluster.kubectl("delete", "replicaset", "mine", "-n", "guests")


def test_a_sick_gpu_gives_no_share_and_the_other_does(counted: Tenancy) -> None:
    """The last test: a GPU that was lost stays cordoned until its node has rebooted."""
    gpus = {"class": "H100", "memory": "80Gi", "count": 2, "unhealthy": [0]}
    counted.cluster.kubectl("annotate", "node", NODE, "--overwrite", f"cotenant.dev/simulated-gpus={json.dumps(gpus)}")
    sick, well = (uuid.lower() for uuid in uuids(counted))
    expected = {f"memory.{sick}": "0", f"compute.{sick}": "0", f"memory.{well}": "1k", f"compute.{well}": "1k"}
    counted.wait(lambda: shares(counted) == expected, what="the sick GPU has no share that is free")
    assert set(shares(counted, "capacity").values()) == {"1k"}
