"""Attempts that a cluster's own rules keep from running: nothing is held, nobody is blamed, all start by themselves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.e2e.tenancy import Document, Tenancy, product, training_job

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

NODES = {
    "nodes": [
        {"name": "node-1", "pods": 8, "gpus": {"count": 1, "class": "H100"}},
        {"name": "node-2", "gpus": {"count": 2, "class": "H100"}},
    ]
}


@pytest.fixture(scope="module")
def platform() -> Iterator[Tenancy]:
    """Two nodes: the kubelet of the smaller one takes eight pods."""
    from cotenant_local.cluster.spec import ClusterSpec

    with product("never-ran", ClusterSpec.model_validate(NODES)) as tenancy:
        yield tenancy


@pytest.fixture
def tenancy(platform: Tenancy) -> Iterator[Tenancy]:
    platform.delete_all()
    yield platform
    platform.delete_all()


def blocked(tenancy: Tenancy, name: str, reason: str, words: str) -> Document:
    """The job once it waits without its GPUs, with these words in its condition."""

    def there() -> Document | None:
        job = tenancy.job(name)
        conditions = {one["type"]: one for one in job.get("status", {}).get("conditions", ())}
        said = conditions.get("StartBlocked", {})
        told = (said.get("status"), said.get("reason")) == ("True", reason) and words in said["message"]
        return job if told and "placement" not in job["status"] else None

    found: Document = tenancy.wait(there, seconds=60, what=f"{name} gave its GPUs back: {reason}")
    assert not found["status"].get("failures")
    assert found["status"]["usage"]["gpuSeconds"] == 0
    return found


def quota(**hard: str) -> Document:
    metadata = {"name": "team", "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def test_a_quota_that_counts_limits_is_met_and_a_full_one_waits_until_there_is_room(tenancy: Tenancy) -> None:
    amounts = {"requests.cpu": "8", "limits.cpu": "8", "requests.memory": "512Mi", "limits.memory": "512Mi"}
    tenancy.apply(quota(**amounts))
    try:
        tenancy.apply(training_job("refused"))
        refused = blocked(tenancy, "refused", "PodRefused", "exceeded quota: team")
        assert not refused["status"].get("excludedNodes")
        tenancy.apply(training_job("neighbour", "team-b"))
        tenancy.wait_phase("neighbour", "Succeeded", namespace="team-b")
        tenancy.apply(quota(**amounts | {"requests.memory": "8Gi", "limits.memory": "8Gi"}))
        done = tenancy.wait_phase("refused", "Succeeded")
        assert "blockedStart" not in done["status"]
    finally:
        tenancy.cluster.kubectl("delete", "resourcequota", "team", "-n", "team-a")


def test_a_limit_range_for_whole_pods_is_met(tenancy: Tenancy) -> None:
    """It fills no limits in, and takes no pod without."""
    limits = {"type": "Pod", "max": {"cpu": "8", "memory": "8Gi"}, "maxLimitRequestRatio": {"cpu": "4"}}
    metadata = {"name": "team", "namespace": "team-a"}
    tenancy.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [limits]}})
    other = _pod("other")
    other["metadata"]["namespace"] = "team-a"
    try:
        tenancy.wait(lambda: "No limit is specified" in _dry_run(tenancy, other), what="the LimitRange is in force")
        tenancy.apply(training_job("bounded"))
        done = tenancy.wait_phase("bounded", "Succeeded")
        assert "blockedStart" not in done["status"]
    finally:
        tenancy.cluster.kubectl("delete", "limitrange", "team", "-n", "team-a")


def test_a_policy_without_a_reason_ends_no_job(tenancy: Tenancy) -> None:
    group = "admissionregistration.k8s.io"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    ours = "object.metadata.name.startsWith('later-')"
    policy: Document = {
        "apiVersion": f"{group}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "not-now"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [{"name": "workers", "expression": ours}],
            "validations": [{"expression": "false", "message": "the registry did not answer, try again"}],
        },
    }
    binding = policy | {
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "not-now", "validationActions": ["Deny"]},
    }
    tenancy.apply(policy, binding)
    try:
        tenancy.wait(lambda: _is_refused(tenancy), seconds=30, what="the policy is in force")
        tenancy.apply(training_job("later"))
        blocked(tenancy, "later", "PodRefused", "the registry did not answer, try again")
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            tenancy.cluster.kubectl("delete", kind, "not-now")
    tenancy.wait_phase("later", "Succeeded")


def _is_refused(tenancy: Tenancy) -> bool:
    """True once the API server applies the policy, which takes a moment."""
    return "try again" in _dry_run(tenancy, _pod("later-try"))


def _pod(name: str) -> Document:
    spec = {"containers": [{"name": "c", "image": "tools"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _dry_run(tenancy: Tenancy, document: Document) -> str:
    """The object as the API server would store it, or the refusal."""
    command = tenancy.cluster.command("kubectl", "create", "--dry-run=server", "-o", "json", "-f", "-")
    done = subprocess.run(command, input=json.dumps(document), capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_pod_that_a_queueing_system_gates_is_told_and_starts_once_it_is_let_go(tenancy: Tenancy) -> None:
    group = "admissionregistration.k8s.io"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    gate = 'Object{spec: Object.spec{schedulingGates: [Object.spec.schedulingGates{name: "queue.example.com/wait"}]}}'
    policy: Document = {
        "apiVersion": f"{group}/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "gates"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [{"name": "workers", "expression": "object.metadata.name.startsWith('gated-')"}],
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": gate}}],
        },
    }
    binding = {"kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": "gates"}}
    tenancy.apply(policy, policy | binding)
    try:
        tenancy.wait(lambda: "queue.example.com" in _dry_run(tenancy, _pod("gated-try")), what="pods are gated")
        tenancy.apply(training_job("gated"))
        held = blocked(tenancy, "gated", "SchedulingGated", "scheduling gates queue.example.com/wait")
        assert not held["status"].get("excludedNodes")
    finally:
        for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
            tenancy.cluster.kubectl("delete", kind, "gates")
    tenancy.wait_phase("gated", "Succeeded")


def test_a_webhook_that_keeps_statuses_from_being_written_is_told_by_an_event_and_stops_nobody_else(
    tenancy: Tenancy,
) -> None:
    """Somebody else's, for jobs of one namespace, whose Service has no endpoints."""
    rule = {"apiGroups": ["cotenant.dev"], "apiVersions": ["*"], "operations": ["UPDATE"],
            "resources": ["trainingjobs/status"]}  # fmt: skip
    webhook = {
        "name": "jobs.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}},
        "clientConfig": {"service": {"name": "nowhere", "namespace": "default", "path": "/"}},
        "rules": [rule],
    }
    configuration: Document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "away"},
        "webhooks": [webhook],
    }

    def told() -> str:
        events = tenancy.get("events", "-n", "team-a", "--field-selector", "reason=Quarantined")["items"]
        return " ".join(one["message"] for one in events if one["involvedObject"]["name"] == "unwritten")

    tenancy.apply(configuration)
    try:
        tenancy.apply(training_job("unwritten"))
        said = tenancy.wait(told, seconds=90, what="an Event says what keeps the status from being written")
        assert 'failed calling webhook "jobs.example.com"' in said
        tenancy.apply(training_job("neighbour", "team-b"))
        tenancy.wait_phase("neighbour", "Succeeded", namespace="team-b")
        assert "placement" not in tenancy.job("unwritten").get("status", {})
    finally:
        tenancy.cluster.kubectl("delete", "validatingwebhookconfiguration", "away")
    tenancy.wait_phase("unwritten", "Succeeded")


def test_an_image_that_is_not_there_holds_no_gpus_and_blames_no_node(tenancy: Tenancy) -> None:
    tenancy.apply(training_job("typo", runtime={"image": "no.such/image:1"}))
    typo = blocked(tenancy, "typo", "ErrImagePull", "pod typo-1-0 does not start")
    assert not typo["status"].get("excludedNodes")
    assert tenancy.job("typo")["status"]["phase"] in {"Pending", "Starting"}


def test_a_node_that_takes_no_more_pods_gets_no_job(tenancy: Tenancy) -> None:
    container = {"name": "c", "image": "ghcr.io/cotenant/tools:latest", "command": ["sleep", "100000"]}
    spec: dict[str, Any] = {"nodeName": "node-1", "tolerations": [{"operator": "Exists"}], "containers": [container]}
    fillers: list[Document] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"filler-{n}", "namespace": "default"}, "spec": spec}
        for n in range(8)
    ]
    tenancy.apply(*fillers)
    try:
        tenancy.wait(lambda: len(_admitted_to(tenancy, "node-1")) >= 8, seconds=60, what="node-1 is full of pods")
        tenancy.apply(training_job("fits", gpu={"count": 1}))
        done = tenancy.wait_phase("fits", "Succeeded")
        assert done["status"]["attempts"] == 1
    finally:
        names = [one["metadata"]["name"] for one in fillers]
        tenancy.cluster.kubectl("delete", "pod", "-n", "default", "--grace-period=0", "--force", *names)


def test_a_job_goes_to_the_node_that_can_mount_its_disk_and_a_gang_has_to_share_that_node(tenancy: Tenancy) -> None:
    there = [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}]
    amount, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    volume: Document = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": amount,
            "accessModes": modes,
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "disks",
            "hostPath": {"path": "/tmp/cotenant-disk", "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": "team-a", "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": there}]}},
        },
    }
    wanted = {
        "accessModes": modes,
        "storageClassName": "disks",
        "volumeName": "disk",
        "resources": {"requests": amount},
    }
    claim: Document = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "team-a"},
        "spec": wanted,
    }
    tenancy.apply(volume, claim)
    try:
        mounted = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "data"}}
        tenancy.apply(training_job("disk", gpu={"count": 1}, runtime={"volumes": [mounted]}))
        tenancy.apply(training_job("gang", workers=2, gpu={"count": 2}, runtime={"volumes": [mounted]}))
        done = tenancy.wait_phase("disk", "Succeeded")
        assert (done["status"]["attempts"], done["status"]["excludedNodes"]) == (1, [])
        said = tenancy.wait(lambda: tenancy.job("gang").get("status", {}).get("message"), what="the gang is told why")
        assert "holds only 1 of 2 such workers inside one node where its pods can run" in said
        assert "claim data is bound to volume disk on node node-2" in said
        assert "One node alone can mount claim data, which is ReadWriteOnce" in said
    finally:
        tenancy.delete_all()
        tenancy.cluster.kubectl("delete", "pvc", "data", "-n", "team-a")
        tenancy.cluster.kubectl("delete", "pv", "disk")


def _admitted_to(tenancy: Tenancy, node: str) -> list[Document]:
    """Pods that the kubelet counts."""
    pods = tenancy.get("pods", "-A", "--field-selector", f"spec.nodeName={node}")["items"]
    return [pod for pod in pods if pod["status"]["phase"] in {"Pending", "Running"}]
