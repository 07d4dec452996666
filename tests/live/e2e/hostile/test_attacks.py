"""What a tenant with the ordinary ClusterRole "edit" tries while a job runs, and a colleague without the tenant label.

Inputs: the commands as they would be typed. After all of them the job runs on as if nothing had happened, no GPU is
held twice, and the other tenant's job has its result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cotenant import names
from tests.live.e2e.tenancy import Document, Tenancy, training_job
from tests.live.e2e.test_isolation import held_mib
from tests.live.waiting import timeout

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

TENANT = "--as=mallory"
ELSEWHERE = "elsewhere"
POD = "victim-1-0"
NEVER = 100_000_000
EDIT = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}


def edits(namespace: str) -> Document:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "mallory", "namespace": namespace},
        "roleRef": EDIT,
        "subjects": [{"kind": "User", "name": "mallory"}],
    }


@pytest.fixture(scope="module")
def attacked(installed: Tenancy) -> Iterator[Tenancy]:
    """A job of team-a on one of two GPUs, and `mallory` with `edit` there and in a namespace that is no tenant's."""
    installed.delete_all()
    installed.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ELSEWHERE}})
    installed.apply(edits("team-a"), edits(ELSEWHERE))
    installed.apply(training_job("victim", command=["sleep", "3600"], gpu={"count": 1}, gracePeriod="5s"))
    installed.wait_phase("victim", "Running")
    installed.wait(
        lambda: any(
            one["metadata"]["name"] == names.BASE_NETWORK_POLICY
            for one in installed.get("networkpolicies", "-n", "team-a")["items"]
        ),
        what="the NetworkPolicy of the namespace is there",
    )
    yield installed
    installed.delete_all()
    installed.cluster.kubectl("delete", "namespace", ELSEWHERE)


def tried(tenancy: Tenancy, *command: str, namespace: str = "team-a", stdin: str | None = None) -> str:
    """The API server's refusal. Fails if the tenant succeeds."""
    return tenancy.cluster.kubectl(*command, TENANT, "-n", namespace, stdin=stdin, expect=1)


def record_of(tenancy: Tenancy) -> Document:
    """Everything that no attack may change."""
    job, pod = tenancy.job("victim"), tenancy.get("pod", POD, "-n", "team-a")
    kept = ("uid", "labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp")
    return {
        "job": {key: job["metadata"].get(key) for key in kept},
        "pod": {key: pod["metadata"].get(key) for key in kept},
        "placement": job["status"]["placement"],
        "phase": job["status"]["phase"],
    }


def patch(what: str, body: object, kind: str = "merge") -> list[str]:
    return ["patch", *what.split("/"), f"--type={kind}", "-p", json.dumps(body)]


ATTACKS = {
    "orphan the pods": ["delete", "tj", "victim", "--cascade=orphan"],
    "orphan all pods": ["delete", "tj", "--all", "--cascade=orphan"],
    "have them orphaned later": patch("tj/victim", {"metadata": {"finalizers": ["orphan"]}}),
    "keep the job for ever": patch("tj/victim", {"metadata": {"finalizers": ["example.com/stay"]}}),
    "cut a pod off its job": patch(f"pod/{POD}", [{"op": "remove", "path": "/metadata/ownerReferences"}], "json"),
    "rename its job": ["label", "pod", POD, "cotenant.dev/job=other", "--overwrite"],
    "take it off the books": ["label", "pod", POD, "app.kubernetes.io/managed-by-"],
    "lose its grant": ["annotate", "pod", POD, "cotenant.dev/placement-"],
    "keep a pod for ever": patch(f"pod/{POD}", {"metadata": {"finalizers": ["example.com/stay"]}}),
    "end it in three years": ["delete", "pod", POD, f"--grace-period={NEVER}", "--wait=false"],
    "end it in the books only": ["delete", "pod", POD, "--force", "--grace-period=0"],
    "end all of them in the books only": ["delete", "pods", "-l", "cotenant.dev/job=victim", "--force"],
    "delete the job in three years": ["delete", "tj", "victim", f"--grace-period={NEVER}", "--wait=false"],
    "open its network": patch(f"networkpolicy/{names.BASE_NETWORK_POLICY}", {"spec": {"ingress": [{}]}}),
    "remove its network's rules": ["delete", "networkpolicy", names.BASE_NETWORK_POLICY],
    "replace its image": ["set", "image", f"pod/{POD}", "worker=mine"],
}


@pytest.mark.parametrize("command", ATTACKS.values(), ids=ATTACKS)
def test_what_a_tenant_tries_on_a_running_job_changes_nothing(attacked: Tenancy, command: list[str]) -> None:
    before = record_of(attacked)
    assert "ValidatingAdmissionPolicy 'cotenant-" in tried(attacked, *command)
    assert record_of(attacked) == before


@pytest.mark.parametrize("options", [{"gracePeriodSeconds": 0}, {"gracePeriodSeconds": NEVER}], ids=str)
def test_an_eviction_is_no_way_around_the_bounds(attacked: Tenancy, options: Document) -> None:
    before = record_of(attacked)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": POD, "namespace": "team-a"},
        "deleteOptions": options,
    }
    path = f"/api/v1/namespaces/team-a/pods/{POD}/eviction"
    answer = tried(attacked, "create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    assert "deleteOptions.gracePeriodSeconds" in answer
    assert record_of(attacked) == before


def test_a_pod_without_the_operators_making_books_no_gpu(attacked: Tenancy) -> None:
    """The pod has everything of a worker pod: labels, annotation, owner, contract."""
    real = attacked.get("pod", POD, "-n", "team-a")
    for namespace in ("team-a", ELSEWHERE):
        for kept in (
            ["labels", "annotations", "ownerReferences"],
            ["labels"],
            ["annotations"],
            ["ownerReferences"],
            [],
        ):
            spec = {key: real["spec"][key] for key in ("restartPolicy", "securityContext")}
            worker = {key: value for key, value in real["spec"]["containers"][0].items() if key != "volumeMounts"}
            metadata = {"name": "forged", "namespace": namespace} | {key: real["metadata"][key] for key in kept}
            forged = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | {"containers": [worker]}}
            answer = tried(attacked, "create", "-f", "-", namespace=namespace, stdin=json.dumps(forged))
            assert "ValidatingAdmissionPolicy 'cotenant-" in answer


def test_a_network_policy_of_a_tenants_own_opens_nothing_to_worker_pods(attacked: Tenancy) -> None:
    opened = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "open", "namespace": "team-a"},
        "spec": {"podSelector": {}, "ingress": [{}], "egress": [{}]},
    }
    said = tried(attacked, "create", "-f", "-", stdin=json.dumps(opened))
    assert "add to its matchExpressions {key: cotenant.dev/job, operator: DoesNotExist}" in said


def test_after_all_of_it_the_other_tenants_job_has_its_result_on_another_gpu(attacked: Tenancy) -> None:
    attacked.apply(training_job("honest", namespace="team-b", command=["sleep", "10"], gpu={"count": 1}))
    attacked.wait_phase("honest", "Running", namespace="team-b")
    capacity = {gpu["uuid"]: gpu["memoryMiB"] for gpu in attacked.get("gpunodes")["items"][0]["status"]["gpus"]}
    assert dict(held_mib(attacked.jobs())) == capacity
    attacked.wait_phase("honest", "Succeeded", namespace="team-b")
    assert attacked.job("victim")["status"]["phase"] == "Running"


def test_a_tenant_ends_a_pod_and_a_job_as_ever(attacked: Tenancy) -> None:
    """The last of this module: a pod that is deleted plainly ends its attempt, and the job goes with all of its own."""
    attacked.cluster.kubectl("delete", "pod", POD, TENANT, "-n", "team-a")
    attacked.wait(lambda: attacked.job("victim")["status"].get("attempts") == 2, what="the job has a second attempt")
    attacked.wait_phase("victim", "Running")
    attacked.cluster.kubectl("delete", "tj", "victim", TENANT, "-n", "team-a")
    attacked.wait(
        lambda: (
            not attacked.get("pods,services,secrets,networkpolicies", "-n", "team-a", "-l", "cotenant.dev/job=victim")[
                "items"
            ]
        ),
        what="everything of the job is gone",
    )


def test_a_namespace_that_is_deleted_takes_its_jobs_along(attacked: Tenancy) -> None:
    labels = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    queue = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": "team-gone"}}
    attacked.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-gone", "labels": labels}},
        queue | {"spec": {"namespaces": ["team-gone"], "quotas": [{"guaranteed": 1}]}},
        training_job("runs", namespace="team-gone", command=["sleep", "3600"], gracePeriod="2s"),
    )
    attacked.wait_phase("runs", "Running", namespace="team-gone")
    attacked.cluster.kubectl("delete", "namespace", "team-gone", timeout(90))
    attacked.cluster.kubectl("delete", "queue", "team-gone")
