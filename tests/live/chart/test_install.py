"""The chart installed by Helm on real kubelets: operator and agents as its pods, with its accounts and no others."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.live.waiting import wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

T = TypeVar("T")
NAMESPACE = "cotenant-system"
VALUES = {
    "agent": {"simulate": True},
    "queues": [{"name": "installed", "spec": {"namespaces": ["installed", "bare"], "quotas": [{"guaranteed": 2}]}}],
}
JOB = """
apiVersion: v1
kind: Namespace
metadata:
  name: installed
  labels: {cotenant.dev/tenant: "true", pod-security.kubernetes.io/enforce: restricted}
---
apiVersion: cotenant.dev/v1beta1
kind: TrainingJob
metadata: {name: hello, namespace: installed}
spec:
  queue: installed
  workers: 1
  gpu: {memoryFraction: "0.4"}
  runtime:
    command: [python, -c, "import os; print('sees', os.environ['CUDA_VISIBLE_DEVICES'])"]
"""


def wait_for(what: Callable[[], T], wanted: Callable[[T], bool], *, seconds: float = 120.0) -> T:
    found: list[T] = []

    def as_wanted() -> bool:
        found[:] = [what()]
        return wanted(found[0])

    wait_until(as_wanted, lambda: f"still {found[0]!r}", seconds=seconds)
    return found[0]


@pytest.fixture(scope="module")
def cluster(local_cluster: "Cluster", install: Callable[..., Any]) -> Iterator["Cluster"]:
    with install(local_cluster, VALUES, wait=True):
        yield local_cluster
        local_cluster.kubectl("delete", "namespace", "installed", "--ignore-not-found")


def items(cluster: "Cluster", *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.kubectl("get", *arguments, "-o", "json"))["items"]
    return found


def holders(cluster: "Cluster") -> list[str]:
    """Pods that hold the Leases of the namespace: there is one."""
    leases = items(cluster, "leases", "-n", NAMESPACE)
    return [lease["spec"].get("holderIdentity", "").rpartition("_")[0] for lease in leases]


def gpu_node(cluster: "Cluster", name: str) -> dict[str, Any]:
    return next((n for n in items(cluster, "gpunodes") if n["metadata"]["name"] == name), {"status": {"gpus": []}})


def test_both_replicas_are_ready_and_one_of_them_leads(cluster: "Cluster") -> None:
    pods = items(cluster, "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=operator")
    assert [pod["status"]["containerStatuses"][0]["ready"] for pod in pods] == [True, True]
    names = {pod["metadata"]["name"] for pod in pods}
    wait_for(lambda: holders(cluster), lambda held: len(held) == 1 and set(held) <= names)


def test_every_node_has_a_gpunode_that_belongs_to_it_and_says_that_it_is_simulated(cluster: "Cluster") -> None:
    nodes = {node["metadata"]["name"]: node["metadata"]["uid"] for node in items(cluster, "nodes")}
    found = {node["metadata"]["name"]: node for node in items(cluster, "gpunodes")}
    assert found.keys() == nodes.keys()
    for name, node in found.items():
        assert [owner["uid"] for owner in node["metadata"]["ownerReferences"]] == [nodes[name]]
        assert (node["status"]["simulated"], node["status"]["isolation"]) == (True, "None")
        assert node["status"]["summary"] == "4 × H100 80Gi"


def test_the_heartbeat_goes_on(cluster: "Cluster") -> None:
    first = gpu_node(cluster, "node-1")["status"]["heartbeat"]
    wait_for(lambda: gpu_node(cluster, "node-1")["status"]["heartbeat"], lambda beat: beat > first, seconds=60)


def test_an_agent_says_loudly_that_it_simulates(cluster: "Cluster") -> None:
    said = cluster.kubectl("logs", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=agent", "--tail=-1")
    assert said.count("SIMULATED GPUs") >= 2


def test_a_changed_inventory_shows_in_the_status(cluster: "Cluster") -> None:
    (node,) = [node for node in items(cluster, "nodes") if node["metadata"]["name"] == "node-2"]
    before = node["metadata"]["annotations"]["cotenant.dev/simulated-gpus"]
    sick = json.dumps(json.loads(before) | {"unhealthy": [1]})
    annotate = ("annotate", "node", "node-2", "--overwrite")
    try:
        cluster.kubectl(*annotate, f"cotenant.dev/simulated-gpus={sick}")
        healthy = wait_for(
            lambda: [gpu["healthy"] for gpu in gpu_node(cluster, "node-2")["status"]["gpus"]],
            lambda seen: not all(seen),
        )
        assert healthy == [True, False, True, True]
    finally:
        cluster.kubectl(*annotate, f"cotenant.dev/simulated-gpus={before}")


def test_a_deleted_gpunode_comes_back(cluster: "Cluster") -> None:
    (before,) = [n["metadata"]["uid"] for n in items(cluster, "gpunodes") if n["metadata"]["name"] == "node-1"]
    cluster.kubectl("delete", "gpunode", "node-1")
    after = wait_for(lambda: gpu_node(cluster, "node-1"), lambda node: len(node.get("status", {}).get("gpus", [])) == 4)
    assert after["metadata"]["uid"] != before


def test_a_job_of_a_restricted_tenant_runs_with_the_charts_rights_alone(cluster: "Cluster") -> None:
    cluster.kubectl("apply", "-f", "-", stdin=JOB)
    get = ("trainingjobs", "-n", "installed")
    (job,) = wait_for(
        lambda: items(cluster, *get),
        lambda jobs: bool(jobs) and jobs[0].get("status", {}).get("phase") in {"Succeeded", "Failed"},
        seconds=180,
    )
    assert job["status"]["phase"] == "Succeeded"
    said = cluster.kubectl("logs", "-n", "installed", "hello-1-0")
    (pod,) = items(cluster, "pods", "-n", "installed")
    granted = json.loads(pod["metadata"]["annotations"]["cotenant.dev/placement"])["ranks"]["0"]
    assert f"sees {','.join(granted)}" in said


def test_a_job_of_a_namespace_without_the_label_waits_and_says_why(cluster: "Cluster") -> None:
    """Its pods would be refused by the policy on the operator's account, with GPUs held for nothing meanwhile."""
    _, job = JOB.split("---")
    cluster.kubectl("create", "namespace", "bare")
    try:
        cluster.kubectl("apply", "-f", "-", stdin=job.replace("namespace: installed", "namespace: bare"))
        get = ("trainingjobs", "-n", "bare")
        (found,) = wait_for(
            lambda: items(cluster, *get), lambda jobs: bool(jobs) and "pending" in jobs[0].get("status", {})
        )
        pending = found["status"]["pending"]
        assert (pending["reason"], found["status"].get("attempts", 0)) == ("NamespaceNotServed", 0)
        assert "bare is not labelled cotenant.dev/tenant=true" in pending["message"]
    finally:
        cluster.kubectl("delete", "namespace", "bare")


def test_nobody_was_refused_anything(cluster: "Cluster") -> None:
    """The API server's audit log has no 403 for the two accounts since the chart was installed."""
    accounts = {f"system:serviceaccount:{NAMESPACE}:cotenant-{part}" for part in ("operator", "agent")}
    events = [json.loads(line) for line in (cluster.state.logs / "audit.log").read_text().splitlines()]
    account = json.loads(cluster.kubectl("get", "serviceaccount", "cotenant-operator", "-n", NAMESPACE, "-o", "json"))
    since = account["metadata"]["creationTimestamp"]  # an earlier release lost its rights while its pods still ended
    asked = [
        event
        for event in events
        if event["user"].get("username") in accounts
        and "impersonatedUser" not in event
        and event["requestReceivedTimestamp"] >= since
    ]
    refused = [
        (event["verb"], event["requestURI"]) for event in asked if event.get("responseStatus", {}).get("code") == 403
    ]
    assert asked
    assert refused == []
