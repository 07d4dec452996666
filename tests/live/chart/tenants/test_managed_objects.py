"""A tenant may read and delete objects of the operator, but not edit them, in any namespace."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from cotenant import names
from cotenant.controller.manifests.side_objects import base_network_policy
from cotenant.controller.settings import Settings
from tests.live.chart.tenants.account import Account, Document
from tests.live.chart.tenants.conftest import NODE, grant, wait_for_right

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

POD = "pods/train-1-0"
SIDE_OBJECTS = ("services/train", "networkpolicies/train")
LOOK_BUT_NOT_EDIT = "but not edit it; change the TrainingJob train"


def owner_of(account: Account, path: str) -> Document:
    (owner,) = account.read(path)["metadata"]["ownerReferences"]
    found: Document = owner
    return found


RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SPECS: dict[str, Document] = {
    "pods": {
        "containers": [{"name": "worker", "image": "tools", "securityContext": RESTRICTED}],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    },
    "services": {"ports": [{"port": 80}]},
    "networkpolicies": {"podSelector": {"matchLabels": {"app": "web"}}},
}


def smallest(resource: str, **metadata: Any) -> Document:
    """The smallest object of that kind that the API server takes, with this metadata."""
    document: Document = {"metadata": {"name": "forged", **metadata}}
    return document | ({"spec": SPECS[resource]} if resource in SPECS else {})


# Objects that only the operator may make.


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (
            {names.LABEL_MANAGED_BY: names.MANAGED_BY},
            f"may not set, change or remove the label {names.LABEL_MANAGED_BY}",
        ),
        ({names.LABEL_JOB: "train"}, f"may not set, change or remove the label {names.LABEL_JOB}"),
        ({names.LABEL_JOB_UID: "x"}, f"may not set, change or remove the label {names.LABEL_JOB_UID}"),
        ({names.LABEL_MANAGED_BY: "Helm", "app": "web"}, ""),
    ],
    ids=["managed by", "job", "job's uid", "somebody else's"],
)
@pytest.mark.parametrize("resource", ["pods", "services", "secrets", "networkpolicies"])
def test_objects_with_labels_of_the_operator_are_made_by_the_operator_only(
    colleague: Account, resource: str, labels: dict[str, str], says: str
) -> None:
    answer = colleague.create(resource, smallest(resource, labels=labels))
    assert (says in answer) if says else answer == ""


def test_a_claim_does_not_look_like_the_operators_before_there_are_any(policies: Cluster, colleague: Account) -> None:
    """Agents offer no GPUs here. A claim that looks like the operator's would not be counted as a claim of others once
    they do.
    """
    if "resource.k8s.io/v1\n" not in policies.kubectl("api-versions"):
        pytest.skip("this Kubernetes has no ResourceClaims")
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    claim = smallest("resourceclaims", labels={names.LABEL_MANAGED_BY: names.MANAGED_BY})
    claim["spec"] = {"devices": {"requests": [request]}}
    assert f"you may not set, change or remove the label {names.LABEL_MANAGED_BY}" in colleague.create(
        "resourceclaims", claim
    )
    del claim["metadata"]["labels"]
    assert colleague.create("resourceclaims", claim) == ""


def test_a_pod_elsewhere_with_everything_of_a_worker_pod_is_refused(colleague: Account, tenant: Account) -> None:
    real = tenant.read(POD)
    copied = {key: real["metadata"][key] for key in ("labels", "annotations", "ownerReferences")}
    assert "metadata.labels: you may not" in colleague.create("pods", smallest("pods", **copied))
    for kept, says in (
        ("annotations", f"may not set, change or remove the annotation {names.ANNOTATION_PLACEMENT} of a Pod"),
        ("ownerReferences", "may not add, change or remove a TrainingJob as the owner of a Pod"),
    ):
        assert says in colleague.create("pods", smallest("pods", **{kept: copied[kept]}))


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_contract_is_written_by_the_operator_only(colleague: Account, kind: str) -> None:
    pod = copy.deepcopy(smallest("pods"))
    pod["spec"].setdefault(kind, [{"name": "first", "image": "tools"}])
    pod["spec"][kind][0]["env"] = [{"name": names.ENV_CONTRACT, "value": "{}"}]
    assert "spec.containers[].env: you may not set COTENANT_CONTRACT" in colleague.create("pods", pod)


@pytest.mark.parametrize("resource", ["services", "secrets", "networkpolicies"])
def test_nothing_else_is_made_in_the_name_of_a_job(tenant: Account, resource: str) -> None:
    answer = tenant.create(resource, smallest(resource, ownerReferences=[owner_of(tenant, POD)]))
    assert "metadata.ownerReferences: you may not add, change or remove a TrainingJob as the owner" in answer


def test_the_name_of_the_network_policy_of_all_jobs_is_the_operators(tenant: Account, colleague: Account) -> None:
    """A policy that a tenant makes first could go with the tenant's owner, or stay by the tenant's finalizers."""
    squatter = smallest("networkpolicies") | {"metadata": {"name": names.BASE_NETWORK_POLICY}}
    for account in (tenant, colleague):
        assert "jobs.cotenant.dev is for the NetworkPolicy" in account.create("networkpolicies", squatter)


def test_a_pod_does_not_become_the_operators_later(colleague: Account) -> None:
    for metadata, says in (
        ({"labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}, "may not set, change or remove the label"),
        ({"annotations": {names.ANNOTATION_PLACEMENT: "{}"}}, "may not set, change or remove the annotation"),
        ({"labels": {"app": "web"}}, ""),
    ):
        answer = colleague.merge("pods/plain", {"metadata": metadata})
        assert (says in answer) if says else answer == ""


def test_the_pods_of_a_tenants_deployment_are_judged_like_the_tenants_own(account: Callable[..., Account]) -> None:
    """The account that makes them is a controller's."""
    controller = account("system:serviceaccount:kube-system:replicaset-controller")
    assert "may not set, change or remove the label" in controller.create(
        "pods", smallest("pods", labels={names.LABEL_JOB: "train"})
    )


# Objects that only the operator may edit.


def test_a_json_patch_does_not_take_the_owner_off_a_worker_pod(tenant: Account) -> None:
    answer = tenant.edit(POD, {"op": "remove", "path": "/metadata/ownerReferences"})
    assert "metadata.ownerReferences: " in answer


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a": "b"}}, "metadata.labels"),
        ({"labels": {names.LABEL_JOB: "other"}}, "metadata.labels"),
        ({"labels": {names.LABEL_MANAGED_BY: None}}, "metadata.labels"),
        ({"annotations": {"note": "x"}}, "metadata.annotations"),
        ({"annotations": {names.ANNOTATION_PLACEMENT: "{}"}}, "metadata.annotations"),
        ({"finalizers": ["example.com/stay"]}, "metadata.finalizers"),
        ({"ownerReferences": []}, "metadata.ownerReferences"),
    ],
    ids=str,
)
@pytest.mark.parametrize("path", [POD, *SIDE_OBJECTS])
def test_metadata_of_what_the_operator_made_stays(tenant: Account, path: str, metadata: Document, field: str) -> None:
    assert field in tenant.merge(path, {"metadata": metadata})


def test_the_spec_of_a_worker_pod_stays(tenant: Account) -> None:
    for change in ({"activeDeadlineSeconds": 1}, {"containers": [{"name": "worker", "image": "mine"}]}):
        assert LOOK_BUT_NOT_EDIT in tenant.merge_strategically(POD, {"spec": change})


def test_the_network_policy_of_all_jobs_stays_as_it_is(tenant: Account, restorer: Account) -> None:
    base = f"networkpolicies/{names.BASE_NETWORK_POLICY}"
    made = base_network_policy(tenant.namespace, Settings())
    assert restorer.create("networkpolicies", made, dry=False) == ""
    answers = [
        tenant.merge(base, {"spec": {"ingress": [{}]}}),
        tenant.delete(base),
    ]
    assert ["closes the pods of all TrainingJobs here" in answer for answer in answers] == [True] * 2, answers
    unlabelled = tenant.merge(base, {"metadata": {"labels": {names.LABEL_MANAGED_BY: None}}})
    # Two policies refuse this, and the API server says the sentence of either.
    refusals = (
        f"may not set, change or remove the label {names.LABEL_MANAGED_BY}",
        "you may look at it but not edit it",
    )
    assert any(refusal in unlabelled for refusal in refusals), unlabelled
    assert restorer.delete(base, dry=False) == ""


def test_side_objects_of_a_job_stay_as_they_are(tenant: Account) -> None:
    assert LOOK_BUT_NOT_EDIT in tenant.merge("networkpolicies/train", {"spec": {"ingress": [{}]}})
    assert LOOK_BUT_NOT_EDIT in tenant.merge("services/train", {"spec": {"selector": {"app": "mine"}}})
    assert "field is immutable" in tenant.merge(secret_of(tenant), {"stringData": {"auth_token": "mine"}})
    assert LOOK_BUT_NOT_EDIT in tenant.merge(secret_of(tenant), {"metadata": {"labels": {"a": "b"}}})


def test_side_objects_may_be_written_as_they_are(tenant: Account) -> None:
    """A migration of stored objects does so, to encrypt them with a new key, and gives up if it is refused."""
    for path in (*SIDE_OBJECTS, secret_of(tenant)):
        assert tenant.replace(path, tenant.read(path)) == ""


def secret_of(account: Account) -> str:
    (secret,) = account.read(f"secrets?labelSelector={names.LABEL_JOB}%3Dtrain")["items"]
    return f"secrets/{secret['metadata']['name']}"


@pytest.fixture
def debuggers(stage: Cluster, account: Callable[..., Account]) -> list[Account]:
    """Accounts that may debug: one that was given these two rights, which no version of the ClusterRole has so far, and
    an administrator.
    """
    grant(stage, "debugger", "patch", "pods/ephemeralcontainers", "pods/resize")
    return [account("debugger"), account("root", "system:masters")]


DEBUG = {"ephemeralContainers": [{"name": "debug", "image": "tools", "securityContext": RESTRICTED}]}
LARGER = {"containers": [{"name": "worker", "resources": {"requests": {"cpu": "3"}}}]}


@pytest.mark.parametrize(
    ("subresource", "spec", "says"),
    [
        ("ephemeralcontainers", DEBUG, "spec.ephemeralContainers: an ephemeral container would see the GPUs"),
        ("resize", LARGER, "spec.containers[].resources: a pod of a job is as large as its TrainingJob says"),
    ],
    ids=["ephemeral container", "resize"],
)
def test_a_worker_pod_gets_neither_company_nor_room(
    debuggers: list[Account], request: pytest.FixtureRequest, subresource: str, spec: Document, says: str
) -> None:
    if subresource == "resize" and request.config.getoption("--oldest"):
        pytest.skip("Kubernetes 1.32 resizes no pods")
    for each in debuggers:
        assert says in each.merge_strategically(f"{POD}/{subresource}", {"spec": spec})


# Other accounts that may.


def test_a_kubelet_writes_the_status_of_the_pods_of_its_own_node(account: Callable[..., Account]) -> None:
    status = {"status": {"phase": "Running"}}
    own = account(f"system:node:{NODE}", "system:nodes")
    assert own.merge(f"{POD}/status", status) == ""
    assert own.delete(POD, gracePeriodSeconds=0) == ""
    stranger = account("system:node:other", "system:nodes")
    assert stranger.merge(f"{POD}/status", status) != ""
    assert stranger.delete(POD, gracePeriodSeconds=0) != ""


def noted(plugin: Account, verb: str, path: str, annotations: dict[str, str]) -> str:
    """The API server's answer to a new annotation of a pod, by PATCH, or by PUT of the whole pod."""
    if verb == "patch":
        return plugin.merge(path, {"metadata": {"annotations": annotations}})
    pod = plugin.read(POD)
    return plugin.replace(path, pod | {"metadata": pod["metadata"] | {"annotations": annotations}})


@pytest.mark.parametrize("verb", ["patch", "update"])
def test_parts_of_the_cluster_write_the_status_and_notes_but_not_what_the_operator_wrote(
    stage: Cluster, account: Callable[..., Account], verb: str
) -> None:
    """Network plugins note addresses on pods, by the main resource or by its status. Multus, whose role has `update`
    alone, makes no sandbox for a pod without its note.
    """
    role = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: managed-plugin}}
rules: [{{apiGroups: [""], resources: [pods, pods/status], verbs: [get, {verb}]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: managed-plugin}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: managed-plugin}}
subjects: [{{kind: User, name: plugin}}]
"""
    stage.kubectl("apply", "-f", "-", stdin=role)
    try:
        plugin = account("plugin")
        wait_for_right(stage, "plugin", verb, "pods", "--subresource=status")
        own = plugin.read(POD)["metadata"]["annotations"]
        note, placement = own | {"cni.example.com/ip": "10.0.0.1"}, own | {names.ANNOTATION_PLACEMENT: "{}"}
        assert noted(plugin, verb, POD, note) == ""
        assert noted(plugin, verb, f"{POD}/status", note) == ""
        assert "may not set, change or remove the annotation" in noted(plugin, verb, POD, placement)
        assert "metadata.annotations" in noted(plugin, verb, f"{POD}/status", placement)
    finally:
        stage.kubectl("delete", "clusterrole,clusterrolebinding", "managed-plugin")


def test_a_network_plugin_puts_its_finalizer_on_network_policies_and_changes_nothing_else(
    stage: Cluster, account: Callable[..., Account], tenant: Account
) -> None:
    """The controller of EKS enforces a NetworkPolicy only once its finalizer is on it."""
    role = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: managed-network-plugin}
rules: [{apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: managed-network-plugin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: managed-network-plugin}
subjects: [{kind: User, name: network-plugin}]
"""
    stage.kubectl("apply", "-f", "-", stdin=role)
    path, none = "networkpolicies/train", {"metadata": {"finalizers": None}}
    try:
        plugin = account("network-plugin")
        wait_for_right(stage, "network-plugin", "patch", "networkpolicies.networking.k8s.io")
        assert plugin.merge(path, {"metadata": {"finalizers": ["networking.example.com/it"]}}, dry=False) == ""
        assert LOOK_BUT_NOT_EDIT in plugin.merge(path, {"spec": {"ingress": [{}]}})
        assert LOOK_BUT_NOT_EDIT in plugin.merge(path, {"metadata": {"labels": {"a": "b"}}})
        assert "metadata.finalizers: " in tenant.merge(path, none)
        assert plugin.merge(path, none, dry=False) == ""
    finally:
        stage.kubectl("delete", "clusterrole,clusterrolebinding", "managed-network-plugin")


def test_whoever_may_write_a_pods_status_in_one_namespace_only_does_not_write_a_worker_pods(
    stage: Cluster, account: Callable[..., Account]
) -> None:
    grant(stage, "writer", "patch", "pods/status")
    answer = account("writer").merge(f"{POD}/status", {"status": {"phase": "Failed"}})
    assert f"status: the operator made this Pod, you may look at it and end it {LOOK_BUT_NOT_EDIT}" in answer


def test_an_administrator_mends_but_does_not_cut_a_pod_off_its_job(administrator: Account, restorer: Account) -> None:
    note = {"metadata": {"annotations": {"note": "x"}, "finalizers": None}}
    assert administrator.merge(POD, note) == ""
    assert administrator.merge("networkpolicies/train", {"spec": {"ingress": [{}]}}) == ""
    cut = {"op": "remove", "path": "/metadata/ownerReferences"}
    assert "metadata.ownerReferences: you may not" in administrator.edit(POD, cut)
    assert restorer.edit(POD, cut) == ""


def test_the_status_is_no_way_around_the_labels(account: Callable[..., Account]) -> None:
    cluster = account("root", "system:masters")
    answer = cluster.merge(f"{POD}/status", {"metadata": {"labels": {names.LABEL_JOB: "other"}}})
    assert "metadata.labels" in answer


# How a pod ends.


@pytest.mark.parametrize(
    ("pod", "options", "says"),
    [
        pytest.param("train-1-0", {}, "", id="plainly"),
        pytest.param("train-1-0", {"gracePeriodSeconds": 1}, "", id="at once, by the kubelet"),
        pytest.param("train-1-0", {"gracePeriodSeconds": 45}, "", id="in its own time"),
        pytest.param("train-1-0", {"propagationPolicy": "Background"}, "", id="as kubectl does"),
        pytest.param("train-1-0", {"gracePeriodSeconds": 46}, "46 is longer than the 45 s of the pod", id="later"),
        pytest.param("train-1-0", {"gracePeriodSeconds": 100_000_000}, "100000000 is longer than the 45 s", id="never"),
        pytest.param("train-1-0", {"gracePeriodSeconds": 0}, "gracePeriodSeconds: 0 (--force)", id="by force"),
        pytest.param("train-1-0", {"propagationPolicy": "Foreground"}, "propagationPolicy: ", id="after dependents"),
        pytest.param("train-1-0", {"propagationPolicy": "Orphan"}, "propagationPolicy: ", id="orphaning dependents"),
        pytest.param("train-1-0", {"orphanDependents": True}, "propagationPolicy: ", id="the same, as it once was"),
        pytest.param("train-1-1", {"gracePeriodSeconds": 0}, "", id="by force, on no node"),
        pytest.param("train-1-2", {"gracePeriodSeconds": 0}, "", id="by force, when it has ended"),
        pytest.param("train-1-2", {}, "", id="when it has ended"),
    ],
)
def test_a_tenant_ends_a_worker_pod_within_the_time_that_its_job_gave_it(
    tenant: Account, pod: str, options: Document, says: str
) -> None:
    answer = tenant.delete(f"pods/{pod}", **options)
    assert (says in answer) if says else answer == ""


def test_a_collection_of_pods_is_ended_by_the_same_bounds(tenant: Account) -> None:
    chosen = f"pods?labelSelector={names.LABEL_JOB}%3Dtrain"
    assert tenant.delete(chosen) == ""
    assert "gracePeriodSeconds: 0 (--force)" in tenant.delete(chosen, gracePeriodSeconds=0)
    assert "is longer than the 45 s of the pod" in tenant.delete(chosen, gracePeriodSeconds=100_000_000)


@pytest.mark.parametrize("path", [*SIDE_OBJECTS, "secrets"])
def test_what_pods_of_a_job_need_is_not_deleted_under_them(tenant: Account, administrator: Account, path: str) -> None:
    path = secret_of(tenant) if path == "secrets" else path
    answer = tenant.delete(path)
    assert "the pods of TrainingJob train need this" in answer
    assert "delete the TrainingJob" in answer
    assert administrator.delete(path) == ""


def test_an_administrator_may_force_a_pod_off_the_books(administrator: Account) -> None:
    assert administrator.delete(POD, gracePeriodSeconds=0) == ""
    assert administrator.delete(POD, gracePeriodSeconds=600) == ""


@pytest.mark.parametrize(
    ("controller", "options"),
    [
        ("namespace-controller", {"propagationPolicy": "Background"}),
        ("generic-garbage-collector", {"propagationPolicy": "Background"}),
        ("generic-garbage-collector", {"propagationPolicy": "Foreground"}),
        ("pod-garbage-collector", {"gracePeriodSeconds": 0}),
        ("node-controller", {}),
    ],
    ids=str,
)
def test_the_clusters_controllers_end_pods_as_ever(
    account: Callable[..., Account], stage: Cluster, controller: str, options: Document
) -> None:
    assert account(f"system:serviceaccount:kube-system:{controller}").delete(POD, **options) == ""


def test_a_tenants_own_pods_are_ended_as_the_tenant_likes(colleague: Account) -> None:
    assert colleague.delete("pods/plain", gracePeriodSeconds=0) == ""
    assert colleague.delete("pods/plain", gracePeriodSeconds=100_000_000) == ""
    assert colleague.merge("pods/plain", {"metadata": {"finalizers": ["example.com/stay"]}}) == ""
